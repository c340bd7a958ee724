"""The one-liners of docs/scripts.md, each run in a real bash as it stands there, with a model that a test plays.

A paragraph of a `bash` block is one, called by its comment; the files of the page have their names. The model answers
by what is in the question, so each also shows that its file, diff or pipe got there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.dialects import chat, tool_call
from tests.support.manual import PAGES, blocks
from tests.support.served import PATHS, Server
from tests.support.shell import missing, put_ossia, shell, start_shell
from tests.support.site import Reply, Request, wait_until

PAGE = PAGES["docs/scripts.md"].read_text(encoding="utf-8")


def _oneliners() -> dict[str, str]:
    """The command lines by their comments: `{"Several files": "ossia run -f …", …}`."""
    found: dict[str, str] = {}
    for block in blocks(PAGE):
        for text in block.text.strip().split("\n\n") if block.language == "bash" else ():
            title, _, lines = text.removeprefix("# ").partition("\n")
            assert text.startswith("# ") and lines and title not in found, text
            found[title] = lines
    return found


ONELINERS = _oneliners()
FILES = {block.name: block.text for block in blocks(PAGE) if block.name and block.language != "python"}

Says = Mapping[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class Case:
    """A one-liner's surroundings and what comes of it.

    `says`: the answers by texts that the question must have, each used at least once; one that begins with `data:` is
    the server's own stream. `files`: those that there are; `makes`: those that there are then, None: gone.
    """

    says: Says
    stdout: str = ""
    code: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    makes: Mapping[str, str | None] = field(default_factory=dict)
    needs: Sequence[str] = ()
    before: str = ""
    marks: Sequence[pytest.MarkDecorator] = ()


class Model(Server):
    """A server of a model that answers by what it is asked."""

    def __init__(self, says: Says) -> None:
        super().__init__("chat", ())
        self.says, self.used, self.unknown = says, set[tuple[str, ...]](), list[str]()
        self.list_models("openai/gpt-oss-20b")
        self.route(PATHS["chat"], self._said)

    def _said(self, request: Request) -> Reply:
        asked = json.loads(request.body)
        if "messages" not in asked:  # which API is it?
            return Reply(b'{"error": {"message": "messages are required"}}', 400)
        text = "\n".join(one["content"] for one in asked.pop("messages") if one.get("content")) + json.dumps(asked)
        found = next((keys for keys in self.says if all(key in text for key in keys)), None)
        if found is None:
            self.unknown.append(text)
            return Reply(b'{"error": {"message": "nothing is known about that"}}', 400)
        self.used.add(found)
        said = self.says[found]
        answer = said if said.startswith("data:") else chat({"content": said})
        return Reply(answer.encode(), headers={"Content-Type": "text/event-stream"})


@dataclass(frozen=True, slots=True)
class Place:
    """A user's folder, and a shell in it."""

    folder: Path
    model: Model
    env: Mapping[str, str]

    def run(self, text: str, *, before: str = "") -> subprocess.CompletedProcess[str]:
        return shell(["bash", "-euo", "pipefail", "-c", f"{before}\n{text}"], self.folder, self.env)

    def git(self, *args: str) -> subprocess.CompletedProcess[str]:
        return shell(["git", *args], self.folder, self.env)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def repository(self) -> None:
        """Make the folder a repository with a tag and two commits."""
        self.git("init", "-q", "-b", "main")
        self.write({"shop.py": "price = 1\n"})
        self.commit("The first price")
        self.git("tag", "-a", "v1", "-m", "One")
        self.write({"shop.py": "price = 2\n"})
        self.commit("Prices rise")

    def commit(self, subject: str) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", subject)


@pytest.fixture
def place(home: Path) -> Iterator[Callable[[Says], Place]]:
    """Makes a folder whose model says something."""
    with_model: list[Model] = []

    def make(says: Says) -> Place:
        model = Model(says)
        with_model.append(model.__enter__())
        put_ossia(home / ".local/bin")
        folder = home / "project"
        folder.mkdir()
        config = home / ".config/ossia/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'engine = "{model.url("")}"\nallow_host = ["127.0.0.1:{model.port}"]\n')
        (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n[core]\neditor = true\n")
        model.page("/post.html", "<title>Post</title><p>Capybaras bathe.</p>")
        env = {"HOME": str(home), "LANG": "C.UTF-8", "url": model.url("/post.html"), "GIT_CONFIG_NOSYSTEM": "1"}
        return Place(folder, model, {**env, "PATH": f"{home}/.local/bin:{os.environ['PATH']}"})

    yield make
    for model in with_model:
        model.__exit__(None, None, None)


def _steady(text: str) -> str:
    """Output without what git makes anew each time."""
    return re.sub(r"\b[0-9a-f]{7}\b", "0" * 7, text)


def _called(name: str, **arguments: Any) -> str:
    return chat(tool_call(name, json.dumps(arguments), id="c1"), finish="tool_calls")


TOP = "It is:\n```sql\nSELECT who, euros FROM orders ORDER BY euros DESC LIMIT 3;\n```"
ROWS = '{"items": [{"name": "Ada Lovelace", "city": "London", "email": "ada@example.org"}]}'
NAMES = json.dumps({"items": [{"old": "a b.jpg", "new": "ann's.jpg"}, {"old": "-c.jpg", "new": "2026-05-03-c.jpg"}]})
RENAME = "mv -n -- 'a b.jpg' 'ann'\\''s.jpg'\nmv -n -- '-c.jpg' '2026-05-03-c.jpg'\n"
GERMAN = "Translate this into German"
SKILL = ".agents/skills/translate/SKILL.md"
LETTER = "Ada Lovelace was born in 1815.\n"
MAKE = "test:\n\t@echo 3 tests passed, 1 failed; false\n"
REPOSITORY = "git init -q -b main; git commit -q --allow-empty -m Begin; git tag -a v1 -m One"

CASES = {
    "A question about what another program prints": Case(
        says={("How do I list an archive?", "Usage: tar [OPTION...] [FILE]..."): "tar -tf x.tar"},
        stdout="tar -tf x.tar\n",
        needs=["tar"],
    ),
    "Several files": Case(
        says={("Which cases do the tests miss?", "def parse", "def test_parse"): "The empty text."},
        files={"parser.py": "def parse(): ...\n", "test_parser.py": "def test_parse(): ...\n"},
        stdout="The empty text.\n",
    ),
    "The end of a log": Case(
        says={("What failed first? Three lines.", "the last line"): "The disk."},
        files={"app.log": "".join(f"line {n}\n" for n in range(200_000)) + "the last line\n"},
        stdout="The disk.\n",
    ),
    "A failing test": Case(
        says={("Why does this fail?", "3 tests passed, 1 failed"): "1 is not 2."},
        files={"Makefile": MAKE},
        makes={"test.log": "3 tests passed, 1 failed\nmake: *** [Makefile:2: test] Error 1\n"},
        stdout="1 is not 2.\n",
        needs=["make"],
    ),
    "A web page": Case(
        says={("Sum this up in five lines.", "Capybaras bathe."): "They bathe."}, stdout="They bathe.\n"
    ),
    "What commands print, as files": Case(
        says={("Does this change keep to the rules?", "+price = 3", "No numbers."): "No."},
        files={"CONTRIBUTING.md": "No numbers.\n", "shop.py": "price = 2\n"},
        before=f"{REPOSITORY}; git add shop.py; git commit -q -m Shop; echo price = 3 > shop.py",
        stdout="No.\n",
    ),
    "A long question": Case(
        says={("Which of these words is the odd one out, and why?\nsonnet, haiku,",): "Haiku."}, stdout="Haiku.\n"
    ),
    "A translated file": Case(
        says={(GERMAN, LETTER): "Ada Lovelace wurde 1815 geboren."},
        files={"letter.txt": LETTER},
        makes={"letter.de.txt": "Ada Lovelace wurde 1815 geboren.\n"},
    ),
    "Spelling, looked at as a diff": Case(
        says={("Correct the spelling.", "# A projct"): "# A project"},
        files={"README.md": "# A projct\n"},
        makes={"README.new": "# A project\n", "README.md": "# A projct\n"},
        stdout="diff --git a/README.md b/README.new\nindex 0000000..0000000 100644\n--- a/README.md\n+++ b/README.new\n"
        "@@ -1 +1 @@\n# A [-projct-]{+project+}\n",
        needs=["git"],
    ),
    "A script, checked before anyone runs it": Case(
        says={
            ("copies ~/notes to /mnt/backup",): "Here:\n\n```bash\nrsync -a ~/notes /mnt/backup\n```\n\nRun it daily."
        },
        makes={"backup.sh": "rsync -a ~/notes /mnt/backup\n"},
        needs=["shellcheck"],
    ),
    "SQL from a question, on a database that it can't change": Case(
        says={("The three best customers", "CREATE TABLE orders"): TOP},
        before="sqlite3 shop.db \"CREATE TABLE orders (who TEXT, euros INT); INSERT INTO orders VALUES ('Ann', 7)\"",
        makes={"top.sql": "SELECT who, euros FROM orders ORDER BY euros DESC LIMIT 3;\n"},
        stdout="Ann|7\n",
        needs=["sqlite3"],
    ),
    "All examples of a page": Case(
        says={("Repeat its examples.", "Capybaras bathe."): "```\na\n```\nand\n```py\nb\n```"},
        makes={"examples.txt": "a\n\nb\n"},
    ),
    "A pattern": Case(
        says={("extended regular expression",): "It is:\n\n```regex\n[0-9]{4}-[0-9]{2}-[0-9]{2}\n```\n"},
        files={"notes.md": "Roses\n2026-05-03\n"},
        stdout="2:2026-05-03\n",
    ),
    "A field": Case(
        says={("Who is this about?", LETTER, '"born": {"type": "integer"'): '{"name": "Ada Lovelace", "born": 1815}'},
        files={"letter.txt": LETTER},
        stdout="Ada Lovelace\n",
        needs=["jq"],
    ),
    "CSV to JSON": Case(
        says={("Each row, first names first.", "Lovelace Ada,London", '"items"'): ROWS},
        files={"contacts.csv": "name,city,email\nLovelace Ada,London,ada@example.org\n"},
        makes={"contacts.json": f"{ROWS}\n"},
    ),
    "Facts in a text to CSV": Case(
        says={("Who is in it?", LETTER): '{"items": [{"name": "Ada \\"A\\" Lovelace", "born": 1815}]}'},
        files={"letter.txt": LETTER},
        stdout='"Ada ""A"" Lovelace",1815\n',
        needs=["jq"],
    ),
    "Yes or no: only a yes moves it": Case(
        says={("Is this spam?", "You won", '"boolean"'): "true"},
        files={"mail.txt": "You won!\n", "spam/old": ""},
        makes={"mail.txt": None, "spam/mail.txt": "You won!\n"},
    ),
    "One of several": Case(
        says={("Which is it?", "Please pay", '["bill", "letter"]'): '"bill"'},
        files={"scan.txt": "Please pay.\n", "bills/old": ""},
        makes={"scan.txt": None, "bills/scan.txt": "Please pay.\n"},
        needs=["jq"],
    ),
    "Better names for files, looked at first": Case(
        says={("New names, such as", "-c.jpg\na b.jpg"): NAMES},
        files={"photos/a b.jpg": "", "photos/-c.jpg": ""},
        makes={"rename.sh": RENAME, "photos/a b.jpg": ""},
        stdout=RENAME,
        needs=["jq"],
    ),
    "The answer and what it took": Case(
        says={("Name a colour.",): "Blue."},
        stdout='{\n  "answer": "Blue.",\n  "tokens": 9,\n  "exit": 0\n}\n',
        needs=["jq"],
    ),
    "The calls as they happen": Case(
        says={
            ("Sum up README.md.", "# The project"): "It is a project.",
            ("Sum up README.md.",): _called("repo_browser__open_file", path="README.md"),
        },
        files={"README.md": "# The project\n"},
        stdout="Read README.md\n",
        needs=["jq"],
    ),
    "A commit message to edit": Case(
        says={("A commit message for this", "+price = 3"): "Raise the price"},
        before=f"{REPOSITORY}; echo price = 3 > shop.py; git add shop.py",
        stdout="[main 0000000] Raise the price\n 1 file changed, 1 insertion(+)\n create mode 100644 shop.py\n",
        needs=["git"],
    ),
    "A review that a script can act on": Case(
        says={("Review this.", "+price = -3"): '{"findings": ["The price is negative."], "ok": false}'},
        before=f"{REPOSITORY}; git switch -q -c sale; echo price = -3 > shop.py; git add .; git commit -q -m Sale",
        stdout="The price is negative.\n",
        code=1,
        needs=["git", "jq"],
    ),
    "A changelog": Case(
        says={("Release notes for users,", "- Prices rise\nSee the list."): "- Prices are higher."},
        before=f"{REPOSITORY}; git commit -q --allow-empty -m 'Prices rise' -m 'See the list.'",
        stdout="- Prices are higher.\n",
        needs=["git"],
    ),
    "Each file, into another folder": Case(
        says={(GERMAN, "One."): "Eins.", (GERMAN, "Two."): "Zwei."},
        files={"en/a.md": "One.\n", "en/b c.md": "Two.\n", "en/a picture.md": "\0", "de/x": ""},
        makes={"de/a.md": "Eins.\n", "de/b c.md": "Zwei.\n", "de/a picture.md": None},
    ),
    "Four at once": Case(
        says={("Explain this", f"x = {n}"): f"It is {n}." for n in range(5)},
        files={f"src/a {n}.py": f"x = {n}\n" for n in range(5)},
        makes={f"src/a {n}.py.md": f"It is {n}.\n" for n in range(5)},
        needs=["xargs"],
    ),
    "Each line of a file": Case(
        says={("Which is it?\n\nI like it", "complaint"): '"praise"', ("Which is it?\n\n@b",): '"complaint"'},
        files={"comments.txt": "I like it\n@b is broken\n"},
        makes={"kinds.tsv": '"praise"\tI like it\n"complaint"\t@b is broken\n'},
    ),
    "A new column, by one loaded model": Case(
        says={("Praise or complaint?\n\nI like it",): '"praise"', ("complaint?\n\n@b",): '"complaint"'},
        files={"comments.txt": "I like it\n@b is broken\n"},
        makes={"comments.tsv": "praise\tI like it\ncomplaint\t@b is broken\n"},
        needs=["jq", "paste"],
    ),
    "A plan, and nothing changed": Case(
        says={
            ("How would you add a --json flag?", "# The project"): "1. Add it.",
            ("How would you add a --json flag?",): _called("repo_browser__open_file", path="README.md"),
        },
        files={"README.md": "# The project\n"},
        stdout="1. Add it.\n",
        makes={"plan.md": "1. Add it.\n"},
    ),
    "Work within bounds": Case(
        says={
            ("Do the tests pass? Run them.", "all passed"): "They do.",
            ("Do the tests pass? Run them.",): _called("container__exec", command=["bash", "-lc", "make test"]),
        },
        files={"Makefile": "test:\n\t@echo all passed\n"},
        stdout="They do.\n",
        needs=["make"],
        marks=[pytest.mark.needs_bwrap],
    ),
    "At most a minute, and something to say otherwise": Case(
        says={("A tip about git", '"reasoning_effort": "low"'): "Commit often."}, stdout="Commit often.\n"
    ),
    "A prompt with a name": Case(
        says={("Translate this into German; print nothing else.", LETTER.strip()): "Ada."},
        files={"letter.txt": LETTER, f"../{SKILL}": FILES[f"~/{SKILL}"]},
        stdout="Ada.\n",
    ),
    "A question, and one about its answer": Case(
        says={("Which roses like shade?", "Which of them climb?", "Iceberg"): "It does.", ("Which roses",): "Iceberg."},
        stdout="Iceberg.\nIt does.\n",
    ),
    "The same answer each time": Case(says={("Name a colour.", '"temperature": 0.0'): "Blue."}, stdout="Blue.\n"),
    "A function for ~/.bashrc": Case(
        says={("how do I undo a git rebase", '"reasoning_effort": "low"'): "By git reflog."}, stdout="By git reflog.\n"
    ),
}

OWN = {"Again when the notes change", "What was asked before", "The answers with a schema, so far"}
"""Those with a test of their own, below."""


def test_each_oneliner_has_a_case() -> None:
    assert CASES.keys() | OWN == ONELINERS.keys()


def _params() -> Iterator[Any]:
    for title, case in CASES.items():
        without = missing(case.needs)
        skips = [pytest.mark.skip(reason=f"{without} isn't installed")] if without else []
        yield pytest.param(title, case, id=title, marks=[*case.marks, *skips])


@pytest.mark.parametrize(("title", "case"), [*_params()])
def test_a_oneliner(title: str, case: Case, place: Callable[[Says], Place]) -> None:
    here = place(case.says)
    here.write(case.files)
    done = here.run(ONELINERS[title], before=case.before)
    assert here.model.unknown == [], done.stderr
    assert (done.returncode, _steady(done.stdout)) == (case.code, case.stdout), done.stderr
    assert here.model.used == case.says.keys()
    found = {name: path.read_text() if (path := here.folder / name).exists() else None for name in case.makes}
    assert found == case.makes


def test_an_answer_is_made_again_when_its_file_changes(place: Callable[[Says], Place]) -> None:
    here = place({("Sum this up.", "One."): "1", ("Sum this up.", "Two."): "2"})
    here.write({"notes.md": "One.\n"})
    summary = here.folder / "summary.md"
    start_shell(["bash", "-euo", "pipefail", "-c", ONELINERS["Again when the notes change"]], here.folder, here.env)
    for source, made in (("One.\n", "1\n"), ("Two.\n", "2\n")):
        here.write({"notes.md": source})
        os.utime(here.folder / "notes.md", (later := time.time() + 5, later))
        wait_until(lambda made=made: summary.exists() and summary.read_text() == made, seconds=30)
    assert here.model.unknown == []


def test_what_was_asked_before(place: Callable[[Says], Place]) -> None:
    here = place({("Which roses climb?",): "Iceberg.", ("How old is Ada?",): '{"years": 36}'})
    here.run('ossia run --save "Which roses climb?"\nossia run --save --schema "years int" "How old is Ada?"')
    done = here.run(ONELINERS["What was asked before"])
    assert "Which roses climb?" in done.stdout and "Iceberg." in done.stdout and "Ada" not in done.stdout, done
    done = here.run(ONELINERS["The answers with a schema, so far"])
    assert (done.returncode, (here.folder / "answers.jsonl").read_text()) == (0, '{"years": 36}\n'), done


class TestFiles:
    """The files of the page: hooks, a Makefile, a crontab, a line for vim."""

    def _hooked(self, here: Place, hook: str) -> None:
        here.repository()
        here.write({hook: FILES[hook]})
        (here.folder / hook).chmod(0o755)

    def test_a_draft_of_a_commit_message(self, place: Callable[[Says], Place]) -> None:
        here = place({("A commit message", "+price = 3"): "Raise the price", ("+price = 5",): ""})
        self._hooked(here, ".git/hooks/prepare-commit-msg")
        for price, args, subject in (
            (3, (), "Raise the price"),
            (4, ("-m", "By hand"), "By hand"),
            (5, ("-c", "core.editor=echo Without >"), "Without"),  # there is no answer
            (6, ("-c", "core.editor=echo Broken >"), "Broken"),  # the server refuses
        ):
            here.write({"shop.py": f"price = {price}\n"})
            here.git("add", ".")
            options = args if args[:1] == ("-c",) else ()
            done = here.git(*options, "commit", *(args if not options else ()))
            assert done.returncode == 0, done.stderr
            assert here.git("log", "-1", "--format=%B").stdout.strip() == subject
        assert len(here.model.unknown) == 1  # not that with -m

    @pytest.mark.parametrize(("answer", "code"), [('"clean"', 0), ('"leftover"', 1), ("no JSON", 0)])
    def test_a_push_that_is_stopped(self, answer: str, code: int, place: Callable[[Says], Place]) -> None:
        here = place({("debugging output", "+print(price)", '"enum"'): answer})
        self._hooked(here, ".git/hooks/pre-push")
        here.git("init", "-q", "--bare", "../origin")
        here.git("remote", "add", "origin", "../origin")
        here.git("push", "-q", "--no-verify", "origin", "main")
        here.write({"shop.py": "print(price)\n"})
        here.commit("Print it")
        done = here.git("push", "-q", "origin", "main")
        assert (done.returncode, "something is left over" in done.stderr) == (code, bool(code)), done.stderr
        assert here.model.used == here.model.says.keys()

    @pytest.mark.skipif(bool(missing(["make"])), reason="make isn't installed")
    def test_a_rule_of_make(self, place: Callable[[Says], Place]) -> None:
        here = place({(GERMAN, "One."): "Eins."})
        here.write({"en/a.md": "One.\n", "en/b.md": "?\n", "de/x": "", "Makefile": FILES["Makefile"]})
        done = shell(["make", "-k", "de/a.md", "de/b.md"], here.folder, here.env)
        assert (done.returncode, sorted(path.name for path in (here.folder / "de").iterdir())) == (2, ["a.md", "x"])
        assert shell(["make", "-q", "de/a.md"], here.folder, here.env).returncode == 0

    @pytest.mark.skipif(bool(missing(["flock"])), reason="flock isn't installed")
    def test_a_job_of_cron(self, place: Callable[[Says], Place]) -> None:
        here = place({("What was done,", "Prices rise"): "Prices rose."})
        here.repository()
        command = FILES["crontab"].split(maxsplit=5)[5].replace("\\%", "%")
        env = {name: here.env[name] for name in ("HOME", "GIT_CONFIG_NOSYSTEM")} | {"PATH": "/usr/bin:/bin"}
        done = shell(["/bin/sh", "-c", command], Path("/"), env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (here.folder / "today.md").read_text() == "Prices rose.\n"
        here.model.says = {}
        failed = shell(["/bin/sh", "-c", command], Path("/"), env)
        assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (7, "", 1), failed
        assert (here.folder / "today.md").read_text() == "Prices rose.\n"

    @pytest.mark.skipif(bool(missing(["vim"])), reason="vim isn't installed")
    def test_a_filter_of_vim(self, place: Callable[[Says], Place]) -> None:
        here = place({("Correct the spelling.", "A projct"): "A project"})
        here.write({"README.md": "A projct\n"})
        (line,) = [line for line in _lines_of("vim") if line.startswith(":")]
        steps = ('exe "normal! ggVG\\<Esc>"', line, "wq")
        done = shell(
            ["vim", "-es", "-u", "NONE", *(w for s in steps for w in ("-c", s)), "README.md"], here.folder, here.env
        )
        assert (here.folder / "README.md").read_text() == "A project\n", done


def _lines_of(language: str) -> list[str]:
    return [line for block in blocks(PAGE) if block.language == language for line in block.text.splitlines()]
