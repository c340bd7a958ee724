"""Real toolchains in a home and real projects, confined and offline: `python -m tests.backends.projects [FOLDER]`.

Makes FOLDER (a temporary one, with the home, its toolchains, their projects and credentials in it), then runs each
project's build and tests as `container.exec` does, under bubblewrap and Landlock, as root and as a plain user, and
beside each tries to read every credential. Prints a table in Markdown; exits with 1 if something that should work
doesn't, or a credential was read. As anyone but root, runs as that user only. Takes some 10 minutes and 4 GB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import ApprovalAsked, Decision, NoStop, ToolCall, ToolContext
from ossia.tools.toolbox import Toolbox
from ossia.tools.toolchains import find_toolchains
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.backends import small_projects, toolchains_home
from tests.backends.small_projects import PROJECTS, Project
from tests.support import credentials

MECHANISMS = ("bwrap", "landlock")
_TIMEOUT_MS = 300_000


@dataclass(frozen=True, slots=True)
class Cell:
    """A command in a project under a mechanism: `why` is empty if it did what it should, else the end of its output.

    `limit`: why it may not.
    """

    project: str
    command: str
    mechanism: str
    user: str
    seconds: float
    why: str = ""
    limit: str = ""


class Shell:
    """A project's shell as a user's chat has it: the user's home, PATH and toolchains.

    `mechanism`: "bwrap", "landlock", or "unconfined". `data`: ossia's own folder, None: the usual one.
    """

    def __init__(
        self, root: Path, home: Path, mechanism: str, environ: dict[str, str], *, data: Path | None = None
    ) -> None:
        data = data or home / ".local/share/ossia"
        self.toolchains = partial(find_toolchains, root, home=home, environ=environ, data=data)
        confinement = sandbox.choose(bwrap=os.devnull if mechanism == "landlock" else None,
                                     unconfined=mechanism == "unconfined")  # fmt: skip
        if confinement.name != mechanism:
            raise RuntimeError(f"no {mechanism} here: {confinement.reason}")
        tool = Exec(confinement=confinement, home=home, search_path=environ["PATH"], toolchains=self.toolchains)
        context = ToolContext(NoStop(), Workspace(root, trusted=True, keeper=None), data, lambda text: len(text) // 4)
        self._toolbox = Toolbox([tool], policy=Policy([Rule("*", "allow")]), context=context)

    def run(self, command: str) -> str:
        """The result of a call, as the model reads it. Nothing beyond the confinement is granted."""
        words = {"command": ["bash", "-c", command], "timeout": _TIMEOUT_MS}
        running, answer = self._toolbox.run(ToolCall("call", "container.exec", json.dumps(words)), stop=NoStop()), None
        while True:
            try:
                event = running.send(answer)
            except StopIteration as end:
                return str(end.value.text)
            answer = Decision("call", not event.preview.needs) if isinstance(event, ApprovalAsked) else None


def make(home: Path, names: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """The projects made in `home`, and why others aren't: `(["venv", "make"], {"go": "not on this machine"})`."""
    found, missing = toolchains_home.build(home)
    made = []
    for project in PROJECTS:
        root = home / "work" / project.name
        if lacking := [need for need in project.needs if need not in found] or (names and project.name not in names):
            missing.setdefault(project.name, f"without {lacking}")
            continue
        if not root.exists():
            try:
                small_projects.make(project, root, toolchains_home.environ(home))
                project.prepare(root, home)
                small_projects.commit(root)
            except (OSError, subprocess.SubprocessError) as error:
                shutil.rmtree(root, ignore_errors=True)
                missing[project.name] = str(getattr(error, "stderr", "") or error).strip()[-300:]
                continue
        made.append(project.name)
    return made, missing


def cells(home: Path, mechanism: str, projects: Sequence[Project]) -> Iterator[Cell]:
    """Every try of the projects, then that of the credentials, in each."""
    environ = toolchains_home.environ(home)
    credentials.lay(home)
    user = "root" if os.geteuid() == 0 else "a plain user"
    for project in projects:
        root = home / "work" / project.name
        for name in project.removed:
            shutil.rmtree(root / name, ignore_errors=True)
        # with a token in it, it is closed, and cargo refuses to go on without it
        (home / ".cargo/config.toml").write_text("[net]\nretry = 2\n")
        shell = Shell(root, home, mechanism, environ)
        for tried in project.tries:
            begin = time.monotonic()
            said = shell.run(tried.command)
            why = "" if tried.says in said else said.strip()[-400:]
            seconds, limit = round(time.monotonic() - begin, 1), tried.limits.get(mechanism, "")
            yield Cell(project.name, tried.command, mechanism, user, seconds, why, limit)
        print(f"{project.name}: {mechanism}, {user}", file=sys.stderr)
        begin, laid = time.monotonic(), credentials.lay(home)
        said = shell.run(credentials.attack(home, laid.values(), [place.path for place in shell.toolchains().places]))
        read = [str(laid[mark].relative_to(home)) for mark in laid if mark in said]
        why = f"read: {', '.join(read)}" if read else "" if "looked" in said else said[-400:] or "nothing said"
        yield Cell(project.name, f"{len(laid)} credentials", mechanism, user, round(time.monotonic() - begin, 1), why)


def _as_each_user(home: Path, names: Sequence[str]) -> Iterator[Cell]:
    from tests.plain_user import NOBODY, copied, run_as_nobody

    projects = [project for project in PROJECTS if project.name in names]
    for mechanism in MECHANISMS:
        yield from cells(home, mechanism, projects)
    if os.geteuid() != 0:
        return
    with copied() as folder:
        subprocess.run(["chown", "-Rh", f"{NOBODY}:{NOBODY}", home], check=True)
        for mechanism in MECHANISMS:
            command: list[str | Path] = [
                "env/bin/python", "-m", "tests.backends.projects", "--cells", home, mechanism, *names,
            ]  # fmt: skip
            ran = run_as_nobody(command, folder, output=subprocess.PIPE)
            ran.check_returncode()
            yield from (Cell(**json.loads(line)) for line in ran.stdout.splitlines())


def table(found: Sequence[Cell]) -> str:
    """Markdown: a row for each project's command, a column for each mechanism and user."""
    columns = list(dict.fromkeys((cell.mechanism, cell.user) for cell in found))
    head = ["project", "command", *(f"{mechanism}, {user}" for mechanism, user in columns)]
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    by_place = {(cell.project, cell.command, cell.mechanism, cell.user): cell for cell in found}
    notes: dict[str, None] = {}
    for project, command in dict.fromkeys((cell.project, cell.command) for cell in found):
        row = []
        for column in columns:
            cell = by_place[project, command, *column]
            why = cell.why and (cell.limit or cell.why)
            if why:
                notes[why] = None
            number = f" [{[*notes].index(why) + 1}]" if why else ""
            row.append(f"{'no' if cell.why else 'yes'}, {cell.seconds} s{number}")
        lines.append(" | ".join([project, f"`{command}`", *row]))
    return "\n".join([*(f"| {line} |" for line in lines), "", *(f"[{n}] {why}" for n, why in enumerate(notes, 1))])


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--cells"]:
        home, mechanism, *names = arguments[1:]
        for cell in cells(Path(home), mechanism, [project for project in PROJECTS if project.name in names]):
            print(json.dumps(asdict(cell)), flush=True)
        return 0
    folder = Path(arguments[0]).resolve() if arguments else Path(tempfile.mkdtemp(prefix="ossia-projects-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-Rh", "0:0", folder], check=True)
    made, missing = make(folder / "home", arguments[1:])
    found = list(_as_each_user(folder / "home", made))
    print(table(found))
    for name, why in missing.items():
        print(f"- not shown: {name}: {why}")
    return any(cell.why and not cell.limit for cell in found)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
