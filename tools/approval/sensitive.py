"""Files, by their names, that a person is asked about even where a rule allows the call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ossia.tools.approval.autorun import WHY, part_of, pattern_of, plain

SECRET = re.compile(
    r"""(?:^|/)(?:
      \.env[^/]*|[^/]*\.env                                       # .env.local, prod.env, .envrc
    | [^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate)     # keys, stores of keys, states with passwords
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:(?!\.pub$)[^/])*
    | [._]netrc|\.npmrc|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd|\.git-credentials|\.vault_pass[^/]*
    | \.?(?:credentials|secrets?)(?:\.(?:json|ya?ml|toml|ini|cfg|conf|txt|xml|properties|csv))?  # not secrets.py
    | service[-_]account[^/]*\.json
    | \.m2/settings[^/]*\.xml|\.gradle/gradle\.properties|(?:pypoetry|composer)/auth\.(?:toml|json)
    )$
    | (?:^|/)\.git/(?:.*/)?(?:config|config\.worktree|credentials)$   # a URL in it may hold a password
    | (?:^|/)\.(?:ssh|gnupg|aws|azure|kube|docker|config/(?:gcloud|gh))/(?!.*\.pub$)
    """,
    re.VERBOSE,
)
"""Files that often hold secrets; searched for in a lower-case path."""

IN_HOME = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gh", ".config/gcloud", ".netrc",
           ".git-credentials", ".pypirc", ".npmrc", ".pgpass", ".my.cnf", ".password-store", ".cargo/credentials",
           ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
           ".local/share/uv/credentials", ".gem/credentials", ".config/pypoetry/auth.toml",
           ".config/composer/auth.json", ".mozilla", ".thunderbird", ".bash_history", ".zsh_history",
           ".python_history")  # fmt: skip
"""The usual places of secrets in a home: no command reads them, whatever else of the home it may read."""

EVERYDAY = ("conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "setup.py", "pyproject.toml", "Makefile",
            "GNUmakefile", "CMakeLists.txt", "CMakePresets.json", "justfile", "Rakefile", "Taskfile.yml",
            "Taskfile.yaml", "package.json", "deno.json", "deno.jsonc",
            "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "gulpfile.*",
            "Gruntfile.*", "build.rs", "Cargo.toml", "gradlew", "*.gradle", "*.gradle.kts", "pom.xml", "WORKSPACE",
            "MODULE.bazel", "BUILD", "BUILD.bazel", "Dockerfile", "compose.yml", "compose.yaml", "docker-compose.yml",
            "docker-compose.yaml", "Jenkinsfile")  # fmt: skip
"""These run with the project's next test or build, which is everyday work: `--yes` answers for them."""
_EVERYDAY = pattern_of(EVERYDAY)


@dataclass(frozen=True, slots=True)
class Caution:
    """A reason to ask a person; `""` for no reason. `firm`: `--yes` doesn't answer it."""

    reason: str = ""
    firm: bool = False


def of_reading(*names: str) -> str:
    """The reason to ask before these are read: "it reads src/.env, which often holds secrets"; "": no reason."""
    return next((f"it reads {name}, which often holds secrets" for name in names if SECRET.search(plain(name))), "")


def of_writing(*names: str) -> Caution:
    """The same before they are changed: the first firm reason (it is run or obeyed later), else the first."""
    found = [caution for name in names if (caution := _of_writing(name)).reason]
    return next((caution for caution in found if caution.firm), found[0] if found else Caution())


def _of_writing(name: str) -> Caution:
    path = plain(name)
    secret = "which often holds secrets" if SECRET.search(path) else ""
    if part_of(name):
        return Caution(f"it changes {name}, {WHY}" + (f", and {secret}" if secret else ""), firm=True)
    if secret:
        return Caution(f"it changes {name}, {secret}")
    if _EVERYDAY.fullmatch(path.rpartition("/")[2]):
        return Caution(f"it changes {name}, which runs with the next test or build")
    return Caution()


def must_be_named(name: str) -> bool:
    """True if a rule must name it to allow it: `**` isn't meant for secrets, nor for autorun files."""
    return bool(part_of(name)) or bool(SECRET.search(plain(name)))
