"""The programs that keep versions of tools in folders of their own, and the caches of packages: a fixed table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.toolchains.look import absolute


@dataclass(frozen=True, slots=True)
class Manager:
    """A keeper of versions: pyenv is `Manager("pyenv", ".pyenv", (("versions", 1),), …)`.

    `base`: its folder below the home; the user's `variable` may name another, and commands get it. `versions`: folders
    in `base` with an installation so many levels further down: `("candidates", 2)` for `candidates/java/21.0.1-tem`;
    0: the folder is one. `chooses`: names in `base` that are shown once PATH leads there or has one of the `programs`,
    since those choose a version when they start. `tool`: of which it keeps versions, for the files that choose one.
    `begins`: so do the names of its installations, where others may lie among them.
    """

    name: str
    base: str
    versions: tuple[tuple[str, int], ...]
    variable: str = ""
    chooses: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    tool: str = ""
    begins: str = ""


_SHIMS = ("bin", "libexec", "shims", "plugins", "versions", "version")

MANAGERS = (
    Manager("pyenv", ".pyenv", (("versions", 1),), "PYENV_ROOT", (*_SHIMS, "pyenv.d"), tool="python"),
    Manager("rbenv", ".rbenv", (("versions", 1),), "RBENV_ROOT", (*_SHIMS, "rbenv.d"), tool="ruby"),
    Manager("nodenv", ".nodenv", (("versions", 1),), "NODENV_ROOT", _SHIMS, tool="node"),
    Manager("goenv", ".goenv", (("versions", 1),), "GOENV_ROOT", _SHIMS, tool="go"),
    Manager("uv", ".local/share/uv/python", (("", 1),), "UV_PYTHON_INSTALL_DIR", ("",), ("uv",), tool="python"),
    Manager("uv", ".local/share/uv/tools", (("", 1),), "UV_TOOL_DIR"),
    Manager("pipx", ".local/share/pipx/venvs", (("", 1),)),
    Manager("pipx", ".local/pipx/venvs", (("", 1),)),
    Manager("poetry", ".cache/pypoetry/virtualenvs", (("", 1),), "POETRY_VIRTUALENVS_PATH", ("",), ("poetry",)),
    Manager("pipenv", ".local/share/virtualenvs", (("", 1),), "WORKON_HOME", ("",), ("pipenv",)),
    Manager("virtualenvwrapper", ".virtualenvs", (("", 1),)),
    Manager("nvm", ".nvm", (("versions/node", 1), ("versions/io.js", 1)), "NVM_DIR", tool="node"),
    Manager("fnm", ".local/share/fnm", (("node-versions", 1),), "FNM_DIR", tool="node"),
    Manager("fnm", ".fnm", (("node-versions", 1),), tool="node"),
    Manager("volta", ".volta", (("tools/image", 2),), "VOLTA_HOME", ("bin", "tools", "layout.v4"), ("volta",)),
    Manager("asdf", ".asdf", (("installs", 2),), "ASDF_DATA_DIR",
            ("bin", "lib", "libexec", "shims", "plugins", "installs", "asdf.sh"), ("asdf",)),
    Manager("mise", ".local/share/mise", (("installs", 2),), "MISE_DATA_DIR", ("shims", "plugins", "installs"),
            ("mise",)),
    Manager("rustup", ".rustup", (("toolchains", 1),), "RUSTUP_HOME", ("toolchains", "settings.toml"), ("rustup",),
            tool="rust"),
    Manager("cargo", ".cargo", (), "CARGO_HOME", ("config.toml", "config"), ("cargo",)),
    Manager("sdkman", ".sdkman", (("candidates", 2),), "SDKMAN_DIR"),
    Manager("conda", "miniconda3", (("", 0),)),
    Manager("conda", "anaconda3", (("", 0),)),
    Manager("conda", "miniforge3", (("", 0),)),
    Manager("conda", "mambaforge", (("", 0),)),
    Manager("conda", "micromamba", (("envs", 1),), "MAMBA_ROOT_PREFIX"),
    Manager("conda", ".conda", (("envs", 1),)),
    Manager("go", "sdk", (("", 1),), tool="go", begins="go"),
    Manager("ghcup", ".ghcup", (("ghc", 1), ("cabal", 1), ("hls", 1), ("stack", 1))),
    Manager("elan", ".elan", (("toolchains", 1),), "ELAN_HOME", ("toolchains", "settings.toml"), ("elan",)),
    Manager("juliaup", ".julia/juliaup", (("", 1),)),
    Manager("java", ".jdks", (("", 1),)),
    Manager("npm", ".npm-global", (("lib", 0),)),
    Manager("pip", ".local", (("lib", 1),), "PYTHONUSERBASE", ("lib",)),
    Manager("local", ".local/opt", (("", 1),)),
    Manager("brew", "../linuxbrew/.linuxbrew", (("", 0),)),
)  # fmt: skip

PREFIXES = ("JAVA_HOME", "GOROOT", "CONDA_PREFIX", "VIRTUAL_ENV", "DOTNET_ROOT", "FLUTTER_ROOT", "ANDROID_HOME")
"""Variables with which the user names an installation."""
VENV_PARTS = ("pyvenv.cfg", "bin", "lib", "lib64", "include", "share")
"""A virtual environment's parts of its folder, which may hold whole projects, too."""
MARKS = ("conda-meta", "go.env", "release", "include/node", "lib/rustlib")
"""One of these beside a `bin` says that the folder around both is an installation."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The packages that a tool has downloaded: `Cache("cargo", ".cargo", "registry", "CARGO_HOME")`.

    `base`, or what `variable` names, holds them in `name`. `tells`: commands get the variable even if the user hasn't
    set it, since their home is empty.
    """

    tool: str
    base: str
    name: str
    variable: str
    tells: bool = False


CACHES = (
    Cache("uv", ".cache/uv", "", "UV_CACHE_DIR"),
    Cache("pip", ".cache/pip", "", "PIP_CACHE_DIR"),
    Cache("pip", "Library/Caches/pip", "", "PIP_CACHE_DIR"),
    Cache("npm", ".npm", "_cacache", "npm_config_cache"),
    Cache("cargo", ".cargo", "registry", "CARGO_HOME", tells=True),
    Cache("cargo", ".cargo", "git", "CARGO_HOME", tells=True),
    Cache("go", "go/pkg/mod", "", "GOMODCACHE", tells=True),
    Cache("maven", ".m2", "repository", ""),
    Cache("gradle", ".gradle", "caches", "GRADLE_USER_HOME", tells=True),
)


def bases(base: str, variable: str, home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """The folder that the variable names, absolute, and the usual one: two of `/home/me/py` and `/home/me/.pyenv`."""
    if variable and (named := absolute(environ.get(variable, ""))):
        yield named
    for usual, moved in ((".cache", "XDG_CACHE_HOME"), (".local/share", "XDG_DATA_HOME")):
        if base.startswith(f"{usual}/") and (folder := absolute(environ.get(moved, ""))):
            yield Path(folder, base.removeprefix(f"{usual}/"))
    if base == "go/pkg/mod" and (folder := absolute(environ.get("GOPATH", ""))):
        yield folder / "pkg/mod"
    yield home / base
