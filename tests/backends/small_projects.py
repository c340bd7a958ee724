"""Small projects of each kind, as their own clients make them, with dependencies in the home's caches.

make(PROJECTS[0], root, environ); PROJECTS[0].prepare(root, home); commit(root)
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.backends.toolchains_home import installs, newest


@dataclass(frozen=True, slots=True)
class Try:
    """A command for a shell in the project, and a part of its output.

    `plain`: it works without `prepare`. `limits`: the mechanisms under which it can't work, and why.
    """

    command: str
    says: str
    plain: bool = False
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Project:
    """A kind of project: `needs` names its toolchains, `first` is a command that makes what git doesn't hold.

    `prepare(root, home)` adds dependencies, with the network there. `removed` isn't there when the tries begin; else it
    is as after a build of the user's.
    """

    name: str
    needs: tuple[str, ...]
    files: Mapping[str, str]
    tries: tuple[Try, ...]
    first: str = "true"
    prepare: Callable[[Path, Path], None] = lambda root, home: None
    removed: tuple[str, ...] = ()


def write(root: Path, files: Mapping[str, str]) -> None:
    """The files, with their folders: `write(root, {"src/lib.rs": "…"})`."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


_PYTHON = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "import ctypes, sqlite3, ssl, unittest\n\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n"
                    "    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
    ".gitignore": ".venv\n__pycache__\n.pytest_cache\n",
}  # fmt: skip
_NODE = {
    "package.json": '{"name": "calc", "version": "1.0.0", "scripts": {"test": "node --test", "build": "node build"}}',
    "build.js": "require('fs').writeFileSync('built.txt', 'built'); console.log('built')\n",
    "calc.test.js": "require('node:test')('adds', () => require('node:assert').equal(2 + 3, 5));\n",
    ".gitignore": "node_modules\nbuilt.txt\n",
}
_CARGO = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n\n#[test]\nfn adds() {\n    "
                  "assert_eq!(add(2, 3), 5);\n}\n",
    ".gitignore": "target\n",
}  # fmt: skip
_GO = {
    "go.mod": "module example.org/calc\n\ngo 1.18\n",
    "calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
    "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n'
                    '\t\tt.Fatal("not 5")\n\t}\n}\n',
}  # fmt: skip
_JAVA = {
    "src/main/java/org/example/Calc.java": "package org.example;\nclass Calc {\n"
                                           "  static int add(int a, int b) { return a + b; }\n}\n",
    "src/test/java/org/example/CalcTest.java":
        "package org.example;\nimport static org.junit.jupiter.api.Assertions.assertEquals;\n"
        "import org.junit.jupiter.api.Test;\nclass CalcTest {\n"
        "  @Test void adds() { assertEquals(5, Calc.add(2, 3)); }\n}\n",
    ".gitignore": "target\n",
}  # fmt: skip
_MAKE = {
    "calc.c": "int add(int a, int b) { return a + b; }\n",
    "test.c": '#include <stdio.h>\nint add(int, int);\nint main(void) { puts("passed"); return add(2, 3) != 5; }\n',
    "Makefile": "test: build/test\n\tbuild/test\n\nbuild/test: calc.c test.c\n\tmkdir -p build\n\t$(CC) -o $@ $^\n",
    ".gitignore": "build\n",
}
_PERL = {
    "lib/Calc.pm": "package Calc;\nsub add { $_[0] + $_[1] }\n1;\n",
    "t/calc.t": "use Test::More tests => 1;\nuse Calc;\nis(Calc::add(2, 3), 5);\n",
}


def _pytest(root: Path, home: Path) -> None:
    python = newest(home, ".pyenv/versions/3.*")
    write(root, {".python-version": f"{python.name}\n"} if python else {})
    installs(home, root / ".venv/bin/python", "-m", "ensurepip")
    installs(home, root / ".venv/bin/python", "-m", "pip", "install", "-q", "pytest")


def _uv(root: Path, home: Path) -> None:
    python = newest(home, ".local/share/uv/python/*")
    assert python
    minor = ".".join(python.name.split("-")[1].split(".")[:2])
    project = f'[project]\nname = "calc"\nversion = "1"\nrequires-python = "=={minor}.*"\ndependencies = ["six"]\n'
    groups = '[dependency-groups]\ndev = ["pytest"]\n[tool.uv]\npackage = false\n'
    write(root, {".python-version": f"{minor}\n", "pyproject.toml": project + groups})
    installs(home, home / ".local/bin/uv", "sync", "--quiet", "--managed-python", cwd=root,
             UV_PYTHON_INSTALL_DIR=str(home / ".local/share/uv/python"), VIRTUAL_ENV="")  # fmt: skip


def _packages(root: Path, home: Path) -> None:
    package = json.loads(_NODE["package.json"])
    package |= {"dependencies": {"is-number": "7.0.0"}, "devDependencies": {"semver": "7"}}
    test = "require('node:test')('is a number', () => require('node:assert').ok(require('is-number')(5)));\n"
    write(root, {"package.json": json.dumps(package), "number.test.js": test, ".nvmrc": "20\n"})
    settings = {"npm_config_omit_lockfile_registry_resolved": "false"}
    installs(home, "npm", "install", "--no-audit", "--no-fund", cwd=root, **settings)


def _crates(root: Path, home: Path) -> None:
    """With one crate of a registry on loopback, in cargo's own cache."""
    with _Served() as (folder, url):
        _crate(folder, url)
        write(root, {
            "Cargo.toml": _CARGO["Cargo.toml"] + '[dependencies]\nadder = { version = "1", registry = "local" }\n',
            ".cargo/config.toml": f'[registries.local]\nindex = "sparse+{url}/index/"\n',
            "tests/adder.rs": "#[test]\nfn adds() {\n    assert_eq!(adder::add(2, 3), 5);\n}\n",
            "rust-toolchain.toml": '[toolchain]\nchannel = "stable"\n',
        })  # fmt: skip
        installs(home, "cargo", "fetch", "--quiet", cwd=root)


class _Served:
    """A folder served over HTTP on loopback while this lasts."""

    def __enter__(self) -> tuple[Path, str]:
        self._folder = tempfile.TemporaryDirectory()
        handler = partial(_Quiet, directory=self._folder.name)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return Path(self._folder.name), f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Nothing."""


def _crate(folder: Path, url: str) -> bytes:
    packed = io.BytesIO()
    files = {"Cargo.toml": '[package]\nname = "adder"\nversion = "1.0.0"\nedition = "2021"\n',
             "src/lib.rs": "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n"}  # fmt: skip
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"adder-1.0.0/{name}")
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    data = packed.getvalue()
    (folder / "adder-1.0.0.crate").write_bytes(data)
    line = {"name": "adder", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(data).hexdigest(), "features": {},
            "yanked": False}  # fmt: skip
    write(folder, {"index/config.json": json.dumps({"dl": f"{url}/{{crate}}-{{version}}.crate"}),
                   "index/ad/de/adder": json.dumps(line) + "\n"})  # fmt: skip
    return data


def _modules(root: Path, home: Path) -> None:
    """With one module, which a file proxy gives to Go's own cache."""
    proxy, at = root.parent / ".go-proxy", "example.org/adder@v1.0.0"
    versions = proxy / "example.org/adder/@v"
    mod = "module example.org/adder\n"
    write(versions, {"list": "v1.0.0\n", "v1.0.0.info": '{"Version": "v1.0.0"}', "v1.0.0.mod": mod})
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as packed:
        packed.writestr(f"{at}/go.mod", mod)
        packed.writestr(f"{at}/adder.go", "package adder\n\nfunc Add(a, b int) int { return a + b }\n")
    uses = 'package calc\n\nimport "example.org/adder"\n\nfunc Twice(a int) int { return adder.Add(a, a) }\n'
    write(root, {"twice.go": uses, "go.mod": _GO["go.mod"] + "\nrequire example.org/adder v1.0.0\n"})
    installs(home, "go", "mod", "tidy", cwd=root, GOPROXY=f"file://{proxy}", GONOSUMDB="*", GOFLAGS="-modcacherw")
    shutil.rmtree(proxy)


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>calc</artifactId><version>1</version>
  <properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
  <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
  <version>{junit}</version><scope>test</scope></dependency></dependencies>
  <build><plugins>{plugins}</plugins></build>
</project>
"""
_PLUGIN = "<plugin><artifactId>maven-{}-plugin</artifactId><version>{}</version></plugin>"
_PLUGINS = {"resources": "3.3.1", "compiler": "3.13.0", "surefire": "3.2.5", "jar": "3.4.1"}
"""The versions that Maven 3.9.9 takes by itself; a Maven of a distribution takes others, of its own repository."""


def _maven(root: Path, home: Path) -> None:
    """With the plugins and the newest JUnit that work from the repository alone."""
    plugins, errors = "".join(_PLUGIN.format(*plugin) for plugin in _PLUGINS.items()), []
    local = f"-Dmaven.repo.local={home / '.m2/repository'}"
    for junit in sorted((home / ".m2/repository/org/junit/jupiter/junit-jupiter").glob("*/*.jar"), reverse=True):
        write(root, {"pom.xml": _POM.format(junit=junit.parent.name, plugins=plugins)})
        try:
            installs(home, "mvn", "-o", "-q", local, "package", cwd=root)
        except subprocess.CalledProcessError as error:
            errors.append(error)
        else:
            return
    raise errors[-1] if errors else FileNotFoundError("no JUnit in Maven's repository")


_STATUS = Try("git status --short --branch", "## main")
_EMPTY = dict.fromkeys(("bwrap", "landlock"), "an empty cache: bubblewrap before 0.11 and Landlock can't layer one")
_VENV = "python3 -m venv --without-pip .venv"

PROJECTS = (
    Project("venv", ("pyenv", "git"), _PYTHON, (
        Try(".venv/bin/python -m unittest", "OK", plain=True), Try(".venv/bin/python -m pytest -q", "1 passed"),
        Try(". .venv/bin/activate && pytest -q", "1 passed"), Try(".venv/bin/python -m pip list", "pytest"),
        Try("python3 -c 'import sys; print(sys.prefix)'", ".pyenv/versions"), Try("pip list", "pip"), _STATUS,
        Try("git log --oneline | cat", "first", plain=True), Try("git config user.name", "Ann"),
    ), _VENV, _pytest),
    Project("uv", ("uv", "git"), _PYTHON, (
        Try("uv run --offline pytest -q", "1 passed"), Try(".venv/bin/python -m pytest -q", "1 passed"),
        Try("uv pip list --offline", "pytest"), Try("uv python find 3", ".venv/bin/python"),
        Try("cp pyproject.toml uv.lock .python-version notes && cd notes && uv sync --offline && echo synced", "synced",
            limits=_EMPTY), _STATUS,
    ), "true", _uv),
    Project("node", ("node", "git"), _NODE, (
        Try("npm test", "fail 0", plain=True), Try("npm run build", "built", plain=True),
        Try("node --version", "v", plain=True), Try("npx semver 1.2.3", "1.2.3"), Try("npm ls", "is-number"),
        Try("cp package*.json notes && cd notes && npm ci --offline", "added", limits=_EMPTY), _STATUS,
    ), "true", _packages),
    Project("cargo", ("cargo", "git"), _CARGO, (
        Try("touch src/lib.rs; cargo test --offline", "1 passed", plain=True),
        Try("cargo build --offline --release", "Finished"),
        Try("cargo fmt --check && cargo clippy --offline && echo clean", "clean"), _STATUS,
    ), "mkdir -p target; cargo generate-lockfile --offline", _crates),
    Project("cargo, fresh clone", ("cargo", "git"), _CARGO, (
        Try("cargo test --offline", "1 passed"),
    ), removed=("target",)),
    Project("go", ("go", "git"), _GO, (
        Try("go test ./...", "ok", plain=True), _STATUS,
    ), "true", _modules),
    Project("maven", ("java", "git"), _JAVA, (
        Try("touch src/*/java/org/example/*; mvn -o test", "Tests run: 1, Failures: 0"),
        Try("mvn -o -q package && ls target", "calc-1.jar"), Try("javac -version", "javac"), _STATUS,
    ), "true", _maven),
    Project("make", ("make", "git"), _MAKE, (
        Try("touch calc.c; make test", "passed", plain=True), _STATUS,
    ), "mkdir build"),
    Project("perl", ("perl", "git"), _PERL, (Try("prove -l t", "PASS", plain=True), _STATUS)),
)  # fmt: skip


def make(project: Project, root: Path, env: Mapping[str, str]) -> None:
    """The project's files in a new repository; its first command is run in it. `commit` comes after."""
    write(root, {**project.files, "notes/plan.md": "Add.\n"})
    _git(root, "init", "-q", "-b", "main")
    subprocess.run(["bash", "-c", project.first], cwd=root, env=env, check=True, capture_output=True, text=True)


def commit(root: Path) -> None:
    """All but what is ignored, in one commit."""
    _git(root, "add", "-A")
    _git(root, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-q", "-m", "first")


def _git(root: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=root, env=env, check=True, capture_output=True, text=True)
