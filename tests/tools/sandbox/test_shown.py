"""The user's toolchains as commands see them: what works, and all that stays closed beside them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ossia.tools.sandbox import Confinement, Job
from ossia.tools.sandbox._bwrap import Bwrap
from ossia.tools.sandbox._seatbelt import profile
from ossia.tools.sandbox.job import Place, Toolchains
from ossia.tools.sandbox.private import shown
from tests.support.jobs import homes, job_in, output_of, started
from tests.support.kernels import BACKENDS, shell_confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

SECRET = "a-secret-of-the-user"
OPEN = (
    ".cargo", ".rustup", ".m2", ".gradle", ".pyenv/versions/3.11.7", ".local/bin", ".local/share/uv/tools/ruff",
    ".nvm/versions/node/v20.1.0", "go/pkg/mod", ".npm/_cacache", ".config/composer",
)  # fmt: skip
CLOSED = (
    ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml",
    ".gradle/gradle.properties", ".config/composer/auth.json", ".rustup/keys", ".cargo/registry/deep/.netrc",
)  # fmt: skip
BESIDE = (
    ".ssh/id_ed25519", ".ssh/config", ".gnupg/private-keys-v1.d/a.key", ".aws/credentials", ".aws/sso/cache/a.json",
    ".azure/msal_token_cache.json", ".kube/config", ".docker/config.json", ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db", ".config/rclone/rclone.conf", ".config/hub", ".netrc", ".git-credentials",
    ".gitconfig", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".password-store/bank.gpg", ".bash_history",
    ".zsh_history", ".python_history", ".local/share/ossia/sessions.db", ".local/share/ossia/undo/a",
    ".local/share/keyrings/login.keyring", ".local/state/a", ".cache/huggingface/token",
    ".mozilla/firefox/logins.json", ".thunderbird/a.mbox", ".claude/projects/chat.jsonl", ".codex/sessions/chat.jsonl",
    ".config/Slack/Cookies", ".pyenv/versions/3.12.1/token", ".npm/_logs/a.log", ".local/share/uv/credentials/a",
    "go/private.key", "Documents/tax.pdf", ".env", "work/other/.env",
)  # fmt: skip


@dataclass
class Home:
    """A home with toolchains and with what must stay closed, and commands in a workspace of it."""

    home: Path
    workspace: Path
    confinement: Confinement

    def write(self, name: str, text: str = SECRET) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, says: str) -> Path:
        path = self.write(name, f"#!/bin/sh\necho {says}\n")
        path.chmod(0o755)
        return path

    def job(self, *names: str, closed: tuple[str, ...] = CLOSED, caches: tuple[str, ...] = (), **parts: object) -> Job:
        places = [Place(self.home / name, "a test", cache=name in caches) for name in (*names, *caches)]
        tools = Toolchains(tuple(places), tuple(self.home / name for name in closed), **parts)  # type: ignore[arg-type]
        return job_in(self.home, self.workspace, toolchains=tools, search_path=f"{self.home}/.local/bin")

    def run(self, job: Job, command: str) -> list[str]:
        return output_of(self.confinement, job, command).splitlines()


@pytest.fixture(params=BACKENDS)
def user(request: pytest.FixtureRequest) -> Iterator[Home]:
    with homes() as (home, workspace):
        yield Home(home, workspace, shell_confinement(request.param))


def full(user: Home) -> Home:
    for name in (*CLOSED, *BESIDE):
        user.write(name)
    for name in OPEN:
        user.write(f"{name}/open.txt", "open")
    return user


# -- what a command has ------------------------------------------------------------------------------------------------


def test_a_program_of_the_home_runs_by_its_name_and_finds_its_parts(user: Home) -> None:
    """As uv installs it: a link in a folder of PATH, to an environment elsewhere."""
    user.program(".local/share/uv/tools/ruff/bin/ruff", "'all good' $RUSTUP_HOME $(cat ${0%/*}/../lib/part)")
    user.write(".local/share/uv/tools/ruff/lib/part", "part")
    (user.home / ".local/bin").mkdir()
    (user.home / ".local/bin/ruff").symlink_to(user.home / ".local/share/uv/tools/ruff/bin/ruff")
    ruff = user.home / ".local/share/uv/tools/ruff"
    job = user.job(".local/bin", ".local/share/uv/tools/ruff", variables={"RUSTUP_HOME": str(ruff), "PAGER": "less"})
    assert user.run(job, f"{ruff}/bin/ruff; echo $PAGER") == [f"all good {ruff} part", "cat"]
    assert user.run(job, "echo ${PATH%%:*}; command -v ruff") == [
        f"{user.home}/.local/bin",
        f"{user.home}/.local/bin/ruff",
    ]


def test_a_manager_behind_a_link_is_there_by_both_names(user: Home) -> None:
    """`~/.pyenv` moved to another disk, and a version that is a link to another one."""
    user.program("disk/pyenv/versions/3.11.7/bin/python3.11", "python")
    (user.home / ".pyenv").symlink_to("disk/pyenv")
    (user.home / "disk/pyenv/versions/3.11").symlink_to("3.11.7")
    job = user.job(".pyenv/versions/3.11", "disk/pyenv/versions/3.11.7")
    tried = [f"{user.home}/{name}/bin/python3.11" for name in (".pyenv/versions/3.11", "disk/pyenv/versions/3.11.7")]
    assert user.run(job, "; ".join(tried)) == ["python", "python"]


def test_a_single_file_is_shown_without_its_neighbours(user: Home) -> None:
    user.program("bin/tool", "tool")
    user.write("bin/private")
    assert user.run(user.job("bin/tool"), f"{user.home}/bin/tool; cat {user.home}/bin/private")[0] == "tool"
    assert SECRET not in user.run(user.job("bin/tool"), f"cat {user.home}/bin/*")


def test_git_has_the_users_name_and_nothing_else_of_his_settings(user: Home) -> None:
    user.write(".gitconfig", "[credential]\n\thelper = !evil\n")
    settings = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    job = user.job(git_settings=settings)
    assert user.run(job, "git config user.name; git config credential.helper; echo $?") == ["Ada", "1"]
    assert user.run(job, "git config --global user.name Eve; git config user.name") == ["Eve"]
    assert user.run(job, "git config user.name") == ["Ada"]


def test_the_home_as_the_workspace_keeps_its_own_git_settings(user: Home) -> None:
    mine = user.write(".gitconfig", "[user]\n\tname = Mine\n")
    user.workspace = user.home
    user.run(user.job(git_settings="[user]\n\tname = Ada\n"), "true")
    assert mine.read_text() == "[user]\n\tname = Mine\n"


def test_a_place_in_the_workspace_stays_as_the_workspace_is(user: Home) -> None:
    user.write("work/project/.venv/bin/a", "a")
    job = user.job("work/project/.venv/bin", "work/project")
    assert user.run(job, "echo b >.venv/bin/b; cat .venv/bin/*") == ["ab"]


def test_caches_are_read_and_written_for_the_command_alone_or_not_at_all(user: Home) -> None:
    """bubblewrap 0.11 puts a layer above them; without one, tools that must write get an empty cache."""
    user.write(".cache/uv/a", "kept\n")
    job = user.job(caches=(".cache/uv",), variables={"UV_CACHE_DIR": f"{user.home}/.cache/uv"})
    layered = isinstance(user.confinement, Bwrap) and user.confinement.overlays
    write = f"cat {user.home}/.cache/uv/a; (echo new >{user.home}/.cache/uv/a) 2>&-; cat {user.home}/.cache/uv/a"
    assert user.run(job, write) == ["kept", "new" if layered else "kept"]
    assert user.run(job, "mkdir -p $UV_CACHE_DIR/x && ls $UV_CACHE_DIR") == (["a", "x"] if layered else ["x"])
    job = user.job(caches=(".cargo/registry",), variables={"CARGO_HOME": f"{user.home}/.cargo"})
    fetch = "mkdir -p $CARGO_HOME/registry/x && ls $CARGO_HOME/registry"
    assert user.run(replace(job, network=True), fetch)[-1:] == ["x"]
    assert (user.home / ".cache/uv/a").read_text() == "kept\n" and not (user.home / ".cache/uv/x").exists()


# -- what stays closed -------------------------------------------------------------------------------------------------


def test_credentials_and_chats_stay_closed_beside_toolchains(user: Home) -> None:
    job = full(user).job(*OPEN)
    names = " ".join(f"'{user.home}/{name}'" for name in (*CLOSED, *BESIDE))
    assert user.run(job, f"cat {user.home}/{{{','.join(OPEN)}}}/open.txt") == ["open" * len(OPEN)]
    up = "/.." * len(user.workspace.parts)
    for way in ("", "/proc/self/root", "/proc/$$/root", f"{user.home}/.rustup{up}", f"/proc/self/cwd{up}"):
        read = f'for path in {names}; do cat "{way}$path" 2>/dev/null; done; echo end'
        assert user.run(job, read) == ["end"]
    assert user.run(job, f"find {user.home} -type f -exec grep -lF {SECRET} {{}} + 2>/dev/null; echo end") == ["end"]


def test_nothing_leads_from_an_open_folder_to_a_closed_one(user: Home) -> None:
    """Links in a toolchain's folder, links and hard links made by the command, and moving what is on the way."""
    full(user)
    (user.home / ".cargo/link").symlink_to(user.home / ".ssh/id_ed25519")
    (user.home / ".cargo/up").symlink_to("..")
    (user.home / ".cargo/creds").symlink_to("credentials.toml")
    (user.home / ".local/bin/chat").symlink_to("../share/ossia/sessions.db")
    h = user.home
    answers = user.run(user.job(*OPEN), f"""
        cat {h}/.cargo/link {h}/.cargo/up/.ssh/id_ed25519 {h}/.cargo/creds {h}/.local/bin/chat
        ln -s {h}/.cargo/credentials.toml l; cat l
        ln {h}/.cargo/credentials.toml hard && cat hard
        ln {h}/.cargo/open.txt hard && cat hard
        mv {h}/.cargo/credentials.toml . ; mv {h}/.cargo . ; mv {h}/.local/share . ; mv {h} away
        cp -r {h}/.cargo copied; cat copied/credentials* share/ossia/* away/.ssh/*
        mkdir -p {h}/.cargo/credentials.toml {h}/.ssh; cat {h}/.ssh/* {h}/.cargo/credentials*
        umount {h}/.cargo/credentials.toml; mount --bind / /mnt; cat {h}/.cargo/credentials.toml""")  # fmt: skip
    assert SECRET not in "\n".join(answers)
    assert (user.home / ".cargo/credentials.toml").read_text() == SECRET
    assert not (user.workspace / "hard").exists()  # it could be written


def test_toolchains_are_not_written(user: Home) -> None:
    full(user)
    before = {path: path.read_bytes() for path in user.home.rglob("*") if path.is_file()}
    for name in OPEN:
        user.run(user.job(*OPEN), f"""
            cd {user.home}/{name}; echo x >new; echo x >>open.txt; rm -f open.txt; mkdir sub; mv open.txt other
            chmod 777 open.txt; ln -s / root; truncate -s 0 open.txt; rmdir .; sed -i s/open/x/ open.txt
        """)
    assert {path: path.read_bytes() for path in user.home.rglob("*") if path.is_file()} == before
    assert user.run(user.job(*OPEN), f"(echo x >{user.home}/.cargo/new) 2>/dev/null || echo refused") == ["refused"]


def test_what_appears_or_is_replaced_meanwhile_stays_closed(user: Home) -> None:
    """`cargo login` beside a command: a closed file that wasn't there, and one that is replaced by another."""
    full(user)
    (user.home / ".cargo/credentials").unlink()
    wait = "echo ready; until [ -e go ]; do sleep 0.02; done; "
    command = f"{wait} cat {user.home}/.cargo/credentials* {user.home}/.cargo/*; cat {user.home}/.cargo/config/open.txt"
    user.write(".cargo/config/open.txt", "open")
    with started(user.confinement, user.job(*OPEN), command) as process:
        output = process.output
        assert next(output) == b"ready\n"
        user.write(".cargo/credentials", f"{SECRET}-new")
        user.write(".cargo/token", f"{SECRET}-renewed").replace(user.home / ".cargo/credentials.toml")
        (user.workspace / "go").touch()
        text = b"".join(output).decode()
    assert SECRET not in text and text.endswith("open")


def test_a_place_that_became_a_link_since_it_was_found_opens_nothing(user: Home) -> None:
    full(user)
    job = user.job(*OPEN)
    shutil.rmtree(user.home / ".rustup")
    (user.home / ".rustup").symlink_to(".ssh")
    shutil.rmtree(user.home / ".local/bin")
    shutil.rmtree(user.home / "go")
    (user.home / "go").symlink_to("Documents")
    user.write("Documents/pkg/mod/a")
    h = user.home
    answers = user.run(
        job, f"cat {h}/.rustup/* {h}/.ssh/* {h}/go/pkg/mod/a {h}/Documents/pkg/mod/a; cat {h}/.cargo/open.txt"
    )
    assert SECRET not in "\n".join(answers) and answers[-1] == "open"


def test_links_in_a_circle_are_no_obstacle(user: Home) -> None:
    for name in ("work/project/.venv", ".rustup", ".cargo/credentials"):
        (user.home / name).parent.mkdir(exist_ok=True)
        (user.home / name).symlink_to(Path(name).name)
    user.write(".cargo/open.txt", "open")
    job = user.job("work/project/.venv/bin", ".rustup", ".cargo")
    assert user.run(job, f"cat {user.home}/.cargo/open.txt") == ["open"]


def test_a_closed_file_that_is_a_link_closes_its_target_too(user: Home) -> None:
    user.write("tools/dotfiles/cargo-credentials")
    user.write("tools/dotfiles/open.txt", "open")
    (user.home / ".cargo").mkdir()
    (user.home / ".cargo/credentials.toml").symlink_to("../tools/dotfiles/cargo-credentials")
    h = user.home
    answers = user.run(
        user.job(".cargo", "tools"),
        f"cat {h}/.cargo/credentials.toml {h}/tools/dotfiles/{{cargo-credentials,open.txt}}",
    )
    assert SECRET not in "\n".join(answers) and answers[-1] == "open"


@pytest.mark.parametrize(
    "name",
    [".", "..", ".local/share", ".local/share/ossia", ".local/share/ossia/undo", "work", "/", "/tmp", "/etc", "/proc"],
)
def test_what_is_too_wide_is_never_shown(user: Home, name: str) -> None:
    h = full(user).home
    job = user.job(os.path.normpath(h / name), closed=())
    assert shown(job).places == ()
    files = " ".join(f"{h}/{name}" for name in BESIDE)
    answers = "\n".join(user.run(job, f"cat {files} /etc/shadow /proc/{os.getpid()}/environ"))
    assert SECRET not in answers and "root:" not in answers and "PATH=" not in answers


def test_a_closed_folder_closes_places_too(user: Home) -> None:
    full(user)
    user.write(".rustup/toolchains/a")
    job = user.job(".rustup", ".rustup/toolchains", closed=(".rustup",))
    assert shown(job).places == () and user.run(job, f"cat {user.home}/.rustup/*/* 2>/dev/null; echo end") == ["end"]


@pytest.mark.needs_bwrap
def test_a_closed_file_of_a_place_that_commands_see_anyway_is_closed() -> None:
    """Under bubblewrap that is all outside of homes; Landlock opens it only because of the place."""
    with homes() as (home, workspace):
        user = Home(home, workspace, shell_confinement("bwrap"))
        job = user.job("/usr/lib", closed=("/usr/lib/os-release",))
        assert user.run(job, "cat /usr/lib/os-release 2>/dev/null; ls -d /usr/lib") == ["/usr/lib"]


def test_macos_reads_the_places_and_not_what_is_closed_in_them(tmp_path: Path) -> None:
    """Not run here."""
    home, workspace = tmp_path.resolve(), tmp_path.resolve() / "work"
    user = Home(home, workspace, shell_confinement("landlock"))
    workspace.mkdir()
    user.write(".rustup/a")
    user.write(".cargo/bin/a")
    lines = profile(user.job(".rustup", ".cargo", closed=(".cargo/credentials",))).splitlines()
    reads = next(line for line in lines if line.startswith("(allow file-read* "))
    assert f'(subpath "{home}/.rustup")' in reads and f'(subpath "{home}/.cargo/bin")' in reads
    assert f'(subpath "{home}/.cargo")' not in reads
    assert lines[-1] == f'(deny file-read* file-write* (subpath "{home}/.cargo/credentials"))'
