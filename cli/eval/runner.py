"""Runs tests written as pytest's are, with nothing but Python: the commands of a sandbox may have no pytest."""

TEXT = '''\
"""Runs the functions test_* of the files test_*.py beside it, or in tests/ (pytest runs them as well)."""

import importlib.util
import sys
import traceback
from pathlib import Path


def main(root, folder, word):
    sys.path.insert(0, str(root))
    sys.dont_write_bytecode = True
    failed = ran = 0
    for path in sorted(folder.glob("test_*.py")):
        try:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            tests = [(name, one) for name, one in vars(module).items() if name.startswith("test_") and callable(one)]
        except (Exception, SystemExit):
            traceback.print_exc()
            failed += 1
            continue
        for name, test in tests:
            ran += 1
            try:
                test()
            except (Exception, SystemExit):
                failed += 1
                print("FAILED", path.name, name)
                traceback.print_exc()
    print(ran - failed if ran > failed else 0, "passed,", failed, "failed", flush=True)
    if ran and not failed:
        print(word)
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    beside = bool(list(here.glob("test_*.py")))
    sys.exit(main(here.parent if beside else here, here if beside else here / "tests", " ".join(sys.argv[1:])))
'''
