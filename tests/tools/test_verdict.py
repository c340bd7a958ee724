"""Did a command fail? Real outputs of common tools, both ways, behind pipes that hide their status."""

from __future__ import annotations

import pytest

from ossia.tools.verdict import failed, says_failed

FAILED = {
    "pytest": "tests/test_a.py .F     [100%]\n\n=========== short test summary info ===========\n"
    "FAILED tests/test_a.py::test_b - assert 1 == 2\n========= 1 failed, 3 passed in 0.12s =========\n",
    "pytest -q": "FAILED test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.02s",
    "pytest, an error while collecting": "ERROR test_a.py - SyntaxError: invalid syntax\n!!! Interrupted: 1 error "
    "during collection !!!\n1 error in 0.08s",
    "pytest, its last line": "2 failed, 1 passed, 1 xfailed in 3.12s",
    "unittest": "F\n======\nFAIL: test_x (test_a.A.test_x)\n------\nAssertionError: 1 != 2\n\nRan 3 tests in 0.001s\n\n"
    "FAILED (failures=1)",
    "unittest, errors": "Ran 1 test in 0.000s\n\nFAILED (errors=1)",
    "python": "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    1/0\n"
    "ZeroDivisionError: division by zero",
    "python, its last line": "ModuleNotFoundError: No module named 'numpy'",
    "python, its last line alone": "KeyboardInterruptError\nAssertionError",
    "python, a syntax error": "  File \"a.py\", line 1\n    def (\n        ^\nSyntaxError: invalid syntax",
    "cargo test": "test tests::it_works ... FAILED\n\nfailures:\n    tests::it_works\n\n"
    "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    "cargo build": "error[E0308]: mismatched types\n --> src/main.rs:2:18\n\n"
    "error: could not compile `demo` (bin \"demo\") due to 1 previous error",
    "rustc": "error: aborting due to 2 previous errors",
    "go test": "--- FAIL: TestAdd (0.00s)\n    add_test.go:9: got 3, want 4\nFAIL\nFAIL\texample.com/add\t0.002s\nFAIL",
    "go build": "# example.com/add\n./add.go:4:2: undefined: foo\nFAIL\texample.com/add [build failed]",
    "go, a panic": "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:",
    "npm": "npm ERR! code ELIFECYCLE\nnpm ERR! errno 1",
    "npm 10": "npm error code ENOENT\nnpm error syscall open",
    "jest": "FAIL  src/sum.test.js\n  ✕ adds 1 + 2 (3 ms)\n\nTests:       1 failed, 4 passed, 5 total\nTime: 0.4 s",
    "vitest": " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 9 passed (10)",
    "mocha": "  4 passing (12ms)\n  1 failing",
    "node --test": "ℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ cancelled 0",
    "tap": "1..2\nok 1 - a\nnot ok 2 - b\n# tests 2\n# fail 1",
    "node": "Error: Cannot find module './x'\nRequire stack:\n- /w/a.js",
    "node, its last lines": "  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2",
    "tsc": "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.\n",
    "eslint": "/w/a.js\n  1:7  error  'x' is never used  no-unused-vars\n\n✖ 3 problems (2 errors, 1 warning)",
    "make": "gcc -c a.c\na.c:3:5: error: expected ';' before 'return'\nmake: *** [Makefile:4: a.o] Error 1",
    "make, in a folder": "make[1]: *** No rule to make target 'all'.  Stop.",
    "gcc": "a.c: In function 'main':\na.c:3:5: error: 'x' undeclared (first use in this function)",
    "clang": "a.c:3:5: error: use of undeclared identifier 'x'\n1 error generated.",
    "ctest": "83% tests passed, 1 tests failed out of 6\n\nThe following tests FAILED:\n\t  3 - parse (Failed)",
    "maven": "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE",
    "junit": "Tests run: 5, Failures: 0, Errors: 2, Skipped: 0",
    "gradle": "> Task :test FAILED\n\nFAILURE: Build failed with an exception.\n\nBUILD FAILED in 2s",
    "gradle, its tasks": "> Task :test FAILED\n\n3 actionable tasks: 3 executed",
    "bazel": "//app:test_a                FAILED in 0.3s\n  /root/.cache/test.log",
    "dotnet": "Failed!  - Failed:     1, Passed:     3, Skipped:     0, Total:     4, Duration: 9 ms",
    "swift": "\t Executed 3 tests, with 1 failure (0 unexpected) in 0.104 (0.106) seconds",
    "rspec": "5 examples, 1 failure",
    "phpunit": "FAILURES!\nTests: 3, Assertions: 3, Failures: 1.",
    "mypy": "a.py:1: error: Incompatible types in assignment\nFound 3 errors in 1 file (checked 2 source files)",
    "ruff": "a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n[*] 1 fixable with the `--fix` option.",
    "git push": "To github.com:a/b.git\n ! [rejected]        main -> main (fetch first)\n"
    "error: failed to push some refs to 'github.com:a/b.git'",
    "git": "fatal: not a git repository (or any of the parent directories): .git",
    "docker": "denied: requested access to the resource is denied",
    "curl": "curl: (6) Could not resolve host: example.org",
    "sh": "sh: 1: foo: not found",
    "bash": "bash: line 1: cargo: command not found",
    "permission": "touch: cannot touch '/etc/x': Permission denied",
    "read-only": "touch: cannot touch 'a': Read-only file system",
    "echoed": "some words\nexit code: 2",
    "echoed, short": "rc=1",
    "a crash": "Segmentation fault (core dumped)",
    "java": "Exception in thread \"main\" java.lang.IllegalStateException: no",
    "pip": "ERROR: Could not find a version that satisfies the requirement foo\n"
    "ERROR: No matching distribution found for foo",
}

FINE = {
    "pytest": "tests/test_errors.py ....   [100%]\n\n========= 4 passed in 0.03s =========",
    "pytest -v": "test_a.py::test_404_errors PASSED [ 50%]\ntest_a.py::test_failed_login PASSED [100%]\n\n"
    "2 passed in 0.1s",
    "pytest, expected failures": "3 passed, 1 xfailed, 1 skipped in 0.12s",
    "pytest -rP": "----- Captured stderr call -----\nerror: no such file 'x'\n===== 1 passed in 0.01s =====",
    "unittest": "Traceback (most recent call last):\nValueError: it is logged, and expected\n.\n------\n"
    "Ran 3 tests in 0.001s\n\nOK",
    "unittest, expected failures": "Ran 3 tests in 0.001s\n\nOK (expected failures=1)",
    "unittest -v": "test_error (test_a.A.test_error) ... ok\ntest_3_errors ... ok\n\n"
    "Ran 2 tests in 0.000s\n\nOK (skipped=1)",
    "cargo test": "test tests::fails_on_bad_input ... ok\n\n"
    "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    "cargo build": "warning: unused variable: `error`\n    Finished `dev` profile [unoptimized] target(s) in 0.4s",
    "go test": "=== RUN   TestFail\n--- PASS: TestFail (0.00s)\nPASS\nok  \texample.com/add\t0.002s",
    "jest": "PASS  src/sum.test.js\n  ✓ throws 3 errors (3 ms)\n\nTests:       5 passed, 5 total",
    "mocha": "  ✓ retries after 2 failed attempts\n  ✔ answers 404 errors\n\n  2 passing (12ms)",
    "node --test": "ℹ tests 3\nℹ pass 3\nℹ fail 0\nℹ cancelled 0",
    "tap": "1..2\nok 1 - fails well\nnot ok 2 - later # TODO\n# fail 0",
    "eslint": "✖ 1 problem (0 errors, 1 warning)",
    "npm": "npm warn deprecated inflight@1.0.6: This module is not supported\n\nadded 120 packages in 3s\n"
    "found 0 vulnerabilities",
    "make": "gcc -Werror -o errors errors.c\nmake: Nothing to be done for 'all'.",
    "gcc": "a.c:3:5: warning: unused variable 'error' [-Wunused-variable]",
    "ctest": "100% tests passed, 0 tests failed out of 6",
    "maven": "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
    "gradle": "BUILD SUCCESSFUL in 2s\n3 actionable tasks: 3 executed",
    "rspec": "5 examples, 0 failures",
    "mypy": "Success: no issues found in 2 source files",
    "ruff": "All checks passed!",
    "git status": "On branch main\nChanges not staged for commit:\n\tmodified:   errors.py\n",
    "git push": "To github.com:a/b.git\n   1a2b3c..4d5e6f  main -> main",
    "pip": "ERROR: pip's dependency resolver does not currently take into account all the packages\n"
    "Successfully installed foo-1.0",
    "echoed": "some words\nexit code: 0",
    "prose": "The parser reports 3 errors correctly, and denied access is logged.",
    "a list": "errors.py\nfailed.txt\ntest_denied.py",
    "figures": "requests: 1204\nErrors: 3\nfailures=2",
    "a version": "Python 3.11.9",
    "a table": "name    failed  errors\nalice   0       0\n",
    "nothing": "",
}


@pytest.mark.parametrize("tool", FAILED)
def test_what_failed_is_seen_behind_a_pipe(tool: str) -> None:
    assert says_failed(FAILED[tool])
    for command in ("make check 2>&1 | tail -20", "make check; echo done", "make check || true", "cd a && make\nls"):
        assert failed(command, 0, FAILED[tool])
    assert not failed("cat build.log", 0, FAILED[tool])


@pytest.mark.parametrize("tool", FINE)
def test_what_went_well_is_not_red(tool: str) -> None:
    assert not says_failed(FINE[tool])
    assert not failed("make check 2>&1 | tail -20", 0, FINE[tool])


@pytest.mark.parametrize(
    "command",
    [
        *("cat build.log | tail", "tail -50 log | grep -c error", "grep -rn FAILED . | head", "sed 9q log; wc -l log"),
        *("git log --oneline | head", "git diff HEAD~1 | cat", "find . | xargs cat", "cat a | head"),
        *("pytest -q", "cd src && pytest -q", "python3 -c 'import a; a()'", "python3 - <<'EOF'\nimport a\na()\nEOF"),
        *("pytest -q 2>&1", "pytest -q > log", "npm test &> log", "ls -la; echo 'a | b'"),
    ],
)  # fmt: skip
def test_a_reader_of_logs_and_a_status_that_nothing_hides(command: str) -> None:
    assert not failed(command, 0, FAILED["pytest"])


@pytest.mark.parametrize(
    ("command", "status", "output", "bad"),
    [
        ("pytest -q", 1, "1 failed", True),
        ("grep -c error log", 1, "0", False),
        ("grep -rn error src 2>/dev/null", 1, "", False),
        ("diff a b > out", 1, "", False),
        ("grep error none", 2, "grep: none: No such file or directory", True),
        ("pytest -q 2>&1 | grep FAILED", 1, "", False),
        ("pytest -q; grep -c x log", 1, "1 failed, 2 passed in 0.1s\n0", True),
        ("make", 2, "", True),
        ("sleep 99", 124, "", True),
    ],
)
def test_a_status_decides_where_there_is_one(command: str, status: int, output: str, bad: bool) -> None:
    assert failed(command, status, output) is bad


@pytest.mark.parametrize(
    ("command", "said", "bad"),
    [
        ("cat /etc/shadow 2>&1 | head", "cat: /etc/shadow: Permission denied", True),
        ("ls /root 2>&1; pwd", "ls: cannot open directory '/root': Permission denied\n/w", True),
        ("mkdir /x || true", "mkdir: cannot create directory '/x': Read-only file system", True),
        ("cat log | tail", "sshd: permission denied\ntouch: a: Permission denied", False),
        ("cat a b 2>&1 | head", "cat: a: No such file or directory\nb", False),
    ],
)
def test_a_reader_that_is_denied_something_says_so_by_its_name(command: str, said: str, bad: bool) -> None:
    assert failed(command, 0, said) is bad


def test_a_failure_far_above_the_end_does_not_count() -> None:
    assert not says_failed("FAILED (errors=1)\n" + "line\n" * 100)
    assert not says_failed("Traceback (most recent call last):\n" + "line\n" * 30)
