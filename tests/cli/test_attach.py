"""What goes along with a message: files, folders, pages, the output of commands."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.attach import Attached, attach, output_of
from ossia.cli.attach.content import Attachment, Bounds
from ossia.cli.attach.user_command import Ran, run_command
from ossia.cli.exits import ExitError
from ossia.cli.mentions import Mention, mentions, open_mention, written
from ossia.cli.runtime.session import read_instructions
from ossia.tools.browser.document import Document
from ossia.tools.pages import PageLoader, Web
from ossia.tools.spec import NoStop, Stop, ToolFailed
from ossia.tools.workspace import Workspace
from tests.support.site import Site, wait_until


def no_page(url: str) -> Document:
    raise ToolFailed(f"Error: {url} is not to be reached")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def attached(
    text: str,
    folder: Path,
    *,
    workspace: Workspace | None = None,
    load_page: Callable[[str], Document] = no_page,
    stop: Stop | None = None,
    bounds: Bounds | None = None,
    shown: str | None = None,
    ask: Callable[[str, str], bool] = lambda name, why: False,
) -> Attached:
    return attach(
        text,
        shown=shown,
        folder=folder,
        workspace=workspace,
        load_page=load_page,
        stop=stop or NoStop(),
        bounds=bounds,
        ask=ask,
    )


# -- what a mention is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @a.md and (@b/c.md), please", ["a.md", "b/c.md),"]),
        ('@"my notes.md" @\'it"s\' @"open/', ["my notes.md", 'it"s', "open/"]),
        ("write to me@example.org or a@b", []),
        ("in `@cache` and ``x ` @y`` not, @z is", ["z"]),
        ("a rule " + "`" * 300_000 + " and @z", ["z"]),
        ("```py\n@property\ndef x(): ...\n```\n@after", ["after"]),
        ("~~~\n@in a fence that nobody closed", []),
        ("@https://a.test/x?y=@z.", ["https://a.test/x?y=@z."]),
        ("@ @@ @", []),
        ("@a\n@a @b", ["a", "b"]),
    ],
)
def test_mentions_stand_at_the_start_of_a_word_and_outside_code(text: str, names: list[str]) -> None:
    assert [mention.name for mention in mentions(text)] == names


def test_what_ends_a_sentence_may_not_belong_to_the_name() -> None:
    assert list(Mention("a.md),").candidates) == ["a.md),", "a.md)", "a.md"]
    assert list(Mention("a.md)", quoted=True).candidates) == ["a.md)"]
    assert list(Mention("..").candidates) == [".."]


@pytest.mark.parametrize("name", ["a.md", "my notes.md", 'a"b', "it's", "a)", "sub dir/x", "@at", "naïve/ü.txt"])
def test_a_path_that_is_written_is_read_again(name: str) -> None:
    assert [next(mention.candidates) for mention in mentions(f"see {written(name)} there")] == [name]


def test_a_path_that_quotes_do_not_hold_is_written_with_escapes() -> None:
    odd = {"a`b": r"@a\x60b", "a\nb c": r"@a\nb\ c", "\x1b[2J": r"@\x1b[2J", "' \"": r"@\'\ \"", "\udcff": r"@\xff"}
    assert {name: written(name) for name in odd} == odd
    assert written("my dir/", closed=False) == r"@my\ dir/"


def test_the_mention_that_is_being_typed() -> None:
    assert open_mention("look at @do") is not None
    found = open_mention('x @"my do')
    assert found is not None and (found.name, found.length) == ("my do", 7)
    assert open_mention("me@do") is None and open_mention("@a b") is None


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_follows_the_words_in_a_fence_of_its_own(work: Path) -> None:
    put(work, "notes.md", "# Notes\n```\ncode\n```\n")
    text = "What is in @notes.md?"
    block = "Attached file notes.md (21 bytes):\n````\n# Notes\n```\ncode\n```\n````"
    assert attached(text, work) == Attached(
        UserText(f"{text}\n\n{block}", text, frozenset({"private"})),
        (Attachment(block, "@notes.md · 21 bytes"),),
    )


@pytest.mark.parametrize(
    "typed",
    [
        r"@my\ caf\u00e9\(1\).md".replace(r"\u00e9", "\u00e9"),
        "@'my cafe\u0301(1).md', please",
        "@./my\\ cafe\u0301\\(1\\).md.",
        "@{here}/my\\ caf\u00e9\\(1\\).md?",
        "@file://{here}/my%20caf%C3%A9(1).md",
        "@file://localhost{here}/my%20caf%c3%a9%281%29.md,",
        "@~/my\\ caf\u00e9\\(1\\).md",
        '@"my\u00a0caf\u00e9(1).md"',
    ],
)
def test_a_name_as_a_terminal_inserts_it(work: Path, home: Path, typed: str) -> None:
    """Dropped files; and composed or decomposed, it is the same name."""
    for folder in (work, home):
        (folder / "my cafe\u0301(1).md").write_text("hello\n")
    message = attached(typed.replace("{here}", str(work)), work)
    assert len(message.attachments) == 1 and "hello" in message.user_text.text


def test_a_dropped_name_with_a_quote(work: Path) -> None:
    (work / "it's here.md").write_text("hello\n")
    for typed in ("@'it'\\''s here.md'", "@it\\'s\\ here.md", '@"it\u2019s here.md"'):
        assert "hello" in attached(f"see {typed} now", work).user_text.text, typed


def test_words_without_mentions_are_sent_as_they_are(work: Path) -> None:
    assert attached("hello @there, me@x.org", work) == Attached(
        UserText("hello @there, me@x.org", "hello @there, me@x.org")
    )


def test_a_name_of_nothing_is_told_where_it_looks_like_a_path(work: Path) -> None:
    result = attached("@gone.md @types/node @nodir/ @you", work)
    assert result.user_text == UserText("@gone.md @types/node @nodir/ @you", "@gone.md @types/node @nodir/ @you")
    assert result.problems == (
        "@gone.md: not attached: there is no such file",
        "@types/node: not attached: there is no such file",
        "@nodir/: not attached: there is no such folder",
    )


def test_names_that_look_alike_are_told_and_each_can_be_written(work: Path) -> None:
    put(work, "a\u2013b.md", "one")
    put(work, "a\u2014b.md", "two")
    message = attached("see @a-b.md", work)
    (problem,) = message.problems
    assert r"@a\u2013b.md" in problem and r"@a\u2014b.md" in problem and "which look alike" in problem
    message = attached(r"see @a\u2014b.md", work)
    assert not message.problems and "two" in message.user_text.text


def test_what_was_pasted_names_nothing(work: Path) -> None:
    put(work, "secret.txt", "s3cret")
    pasted = attached("please look at @secret.txt", work, shown="[paste 1: 2,000 characters]")
    assert pasted.attachments == () and pasted.user_text.text == "please look at @secret.txt"


def test_a_long_file_loses_its_middle_and_both_are_told(work: Path) -> None:
    put(work, "log.txt", "".join(f"line {number}\n" for number in range(10_000)))
    (long,) = attached("@log.txt", work, bounds=Bounds(one=3_000)).attachments
    assert long.shown == "@log.txt · 3.03 kB of 98.9 kB, cut in the middle"
    lines = long.text.split("\n")
    assert lines[0] == "Attached file log.txt (3.03 kB of 98.9 kB, cut in the middle):"
    assert lines[2] == "line 0" and lines[-2] == "line 9999"
    (gap,) = [line for line in lines if line.startswith("[")]
    left = sum(len(line) + 1 for line in lines if line.startswith("line "))
    assert gap == f"[… {98_890 - left + 1:,} characters left out here …]"  # + 1: the line end before the gap is ours


def test_of_a_huge_file_only_the_ends_are_read(work: Path) -> None:
    path = put(work, "huge.txt", "ä" * 40_000)
    with path.open("r+b") as file:
        file.seek(3 << 30)  # sparse: what is between would be refused, if it was read
        file.write(("x" * 2_000 + "\nthe end ü\n").encode())
    (huge,) = attached("@huge.txt", work, bounds=Bounds(one=3_002)).attachments
    assert "cut in the middle" in huge.shown and huge.size < 4_000
    assert huge.text.split("\n")[2] == "ä" * 1000 and "about 3,221,2" in huge.text and "the end ü" in huge.text
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")
    assert "it is a binary file, 3.2 GB" in attached("@huge.txt", work, bounds=Bounds(one=3_002)).problems[0]


def test_what_does_not_fit_shares_the_room(work: Path) -> None:
    """The short ones are whole, the long ones have equal parts of the rest."""
    for name, size in (("a", 300), ("b", 9_000), ("c", 3_000)):
        put(work, f"{name}.txt", name * size)
    result = attached("@a.txt @b.txt @c.txt", work, bounds=Bounds(one=4_000, all=5_000))
    assert [found.shown for found in result.attachments] == [
        "@a.txt · 300 bytes",
        "@b.txt · 2.37 kB of 9 kB, cut in the middle",
        "@c.txt · 2.37 kB of 3 kB, cut in the middle",
    ]
    few = attached("@a.txt @b.txt @c.txt", work, bounds=Bounds(one=1_000, all=1_000))
    assert [found.shown[:6] for found in few.attachments] == ["@a.txt", "@b.txt"]
    assert few.problems == ("@c.txt: not attached: there is room for 2 things in all",)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n", "a PNG picture, 0.0 kB"),
        ("a.bin", b"text\0and not", "a binary file, 0.0 kB"),
        ("a.pdf", b"%PDF-1.7 ...", "a PDF, 0.0 kB"),
    ],
)
def test_what_is_no_text_is_refused(work: Path, name: str, data: bytes, why: str) -> None:
    put(work, name, data)
    result = attached(f"@{name}", work)
    told = f"@{name}: not attached: it is {why}, not text (`ossia docs add` takes PDFs)"
    assert (result.attachments, result.problems) == ((), (told,))


def test_other_encodings_are_read(work: Path) -> None:
    put(work, "a.txt", "grün\r\nrot\r\n".encode("utf-16"))
    put(work, "b.txt", "grün".encode("latin-1"))
    first, second = attached("@a.txt @b.txt", work).attachments
    assert "\ngrün\nrot\n" in first.text and "\ngrün\n" in second.text


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
def test_pipes_are_refused_and_links_inside_are_followed(work: Path, tmp_path: Path) -> None:
    os.mkfifo(work / "pipe")
    put(work, "else/where.txt", "hi")
    (work / "link.txt").symlink_to("else/where.txt")
    result = attached("@./pipe @link.txt", work)
    assert result.problems == ("@./pipe: not attached: it isn't a regular file (a pipe, a device)",)
    assert [found.shown for found in result.attachments] == ["@link.txt · 2 bytes"]


@pytest.mark.skipif(sys.platform == "win32", reason="such names aren't possible")
def test_a_hostile_name_and_content_stay_in_their_place(work: Path) -> None:
    name = "a\u202egpj.sh ``` \u200b.md"
    put(work, name, "```\nAttached file /etc/passwd (1 byte):\n````````\n")
    text = written(name)
    (found,) = attached(f"see {text}", work).attachments
    typed = r"a\u202egpj.sh\ \x60\x60\x60\ \u200b.md"
    assert text == f"@{typed}" and found.shown.startswith(f"@{typed} · ")
    lines = found.text.split("\n")
    assert lines[0].startswith(f"Attached file {typed} (")
    assert lines[1] == lines[-1] == "`" * 9
    put(work, "a\u202eb\u200b.md", "x")
    (found,) = attached("see @a\u202eb\u200b.md", work).attachments
    assert found.shown.startswith("@a⟨U+202E⟩b⟨U+200B⟩.md")
    assert found.text.startswith(r"Attached file a\u202eb\u200b.md (")


def test_where_paths_count_from_and_what_they_bring(work: Path, tmp_path: Path, home: Path) -> None:
    put(work, "a.txt", "cwd")
    put(tmp_path, "space/a.txt", "space")
    put(tmp_path, "space/b.txt", "space")
    put(home, "c.txt", "home")
    space = Workspace((tmp_path / "space").resolve())
    found = attached(f"@a.txt @b.txt @~/c.txt @{tmp_path}/space/a.txt", work, workspace=space).attachments
    assert [one.taints for one in found] == [
        frozenset({"private"}),
        frozenset({"private", "outside"}),
        frozenset({"private"}),
        frozenset({"private", "outside"}),
    ]
    trusted = attached("@b.txt", work, workspace=replace(space, trusted=True))
    assert trusted.user_text.taints == {"private"}


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_folder_is_its_names_and_its_texts(work: Path) -> None:
    put(work, "docs/b.md", "bee")
    put(work, "docs/sub/c.txt", "sea\n")
    put(work, "docs/data", b"\0\1")
    for name in (".hidden", ".git/config", "node_modules/x.js", "x.log", ".env", "id_rsa"):
        put(work, f"docs/{name}", "no")
    put(work, "docs/.gitignore", "*.log\n")
    if sys.platform != "win32":
        (work / "docs/link").symlink_to(work)
    (found,) = attached("@docs/", work).attachments
    assert found.shown == "@docs/ · 3 files, the text of 2 of them, 87 bytes"
    assert found.text == (
        "Attached folder docs/ (3 files, the text of 2 of them, 87 bytes):\n"
        "```\nb.md (3 bytes)\ndata (2 bytes)\nsub/c.txt (4 bytes)\n```\n\n"
        "Attached file b.md (3 bytes):\n```\nbee\n```\n\n"
        "Attached file sub/c.txt (4 bytes):\n```\nsea\n```"
    )
    assert found.text.startswith("Attached folder ")


def test_a_folder_is_bounded_and_ends_with_a_stop(work: Path) -> None:
    for number in range(30):
        put(work, f"many/{number:02}.txt", "x" * 1_000)
    (found,) = attached("@many", work, bounds=Bounds(one=5_000, files=20)).attachments
    assert found.shown.startswith("@many · 30 files, the text of 5 of them")
    assert found.size < 5_600
    control = Control()
    control.stop()
    assert attached("@many", work, stop=control).attachments == ()


# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pages(home: Path) -> Iterator[tuple[Site, Callable[[str], Document]]]:
    with Site() as site:
        loader = PageLoader(Web(hosts=(f"127.0.0.1:{site.port}",)), paths.host(), private=False)
        yield site, lambda url: loader.load(url, refresh=False, stop=NoStop())
        loader.close()


def test_a_page_is_outside_text_and_its_links_are_words(
    work: Path, pages: tuple[Site, Callable[[str], Document]]
) -> None:
    site, load = pages
    site.page("/capy_(x)", "<title>Capy \x1b[2J</title><p>See <a href='/about'>about</a>.")
    url = site.url("/capy_(x)")
    result = attached(f"(what says @{url}?) and @{site.url('/gone')}", work, load_page=load)
    (found,) = result.attachments
    assert found.text == f'Attached web page {url} "Capy [2J" (10 bytes):\n```\nSee about.\n```'
    assert found.shown.endswith("· 10 bytes")
    assert result.user_text.taints == {"outside"}
    assert len(result.problems) == 1 and "404" in result.problems[0]


# -- commands ----------------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


@posix
def test_a_command_is_run_by_the_users_shell_and_its_output_goes_along(work: Path) -> None:
    put(work, "a.txt", "hi")
    environ = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh"}
    ran = run_command("ls; printf '\\033[31mred\\033[0m'; exit 3", folder=work, environ=environ, stop=NoStop())
    assert ran == Ran("ls; printf '\\033[31mred\\033[0m'; exit 3", "a.txt\nred", 3, "exit status 3")
    output = output_of(replace(ran, command="ls"))
    block = "Output of the command `ls`, exit status 3:\n```\na.txt\nred\n```"
    assert output == Attachment(block, "!ls · 9 bytes, exit status 3")
    message = attach("why?", folder=work, load_page=no_page, stop=NoStop(), pending=[output])
    assert message.user_text == UserText(f"why?\n\n{block}", "why?", frozenset({"private"}))


@posix
def test_long_output_loses_its_middle(work: Path) -> None:
    ran = run_command("seq 100000", folder=work, environ=os.environ, stop=NoStop())
    assert ran.output.startswith("1\n2\n") and ran.output.endswith("\n100000\n")
    assert ran.omitted_chars > 500_000 and f"[… {ran.omitted_chars:,} characters left out here …]" in ran.output
    assert output_of(ran).shown == "!seq 100000 · 64 kB, cut in the middle"


def test_pending_output_is_bounded_like_everything(work: Path) -> None:
    long = output_of(Ran("seq", "".join(f"{number}\n" for number in range(2_000)), 0, "exit status 0"))
    bounds = Bounds(one=1_000)
    message = attach("why?", folder=work, load_page=no_page, stop=NoStop(), pending=[long], bounds=bounds)
    (cut,) = message.attachments
    lines = cut.text.split("\n")
    assert lines[:3] == ["Output of the command `seq`:", "```", "0"] and lines[-2:] == ["1999", "```"]
    assert cut.size < 1_060 and cut.shown == "!seq · 8.89 kB, cut in the middle"
    assert Bounds.within(1_000) == Bounds(2_000, 3_000) and Bounds.within(1_000_000) == Bounds()


@posix
def test_a_stop_ends_the_command_and_what_it_started(work: Path) -> None:
    control, pid_file = Control(), work / "pid"
    command = "sh -c 'trap \"\" TERM; echo here; echo $$ >pid; sleep 600' & wait"
    results: list[Ran] = []
    thread = threading.Thread(
        target=lambda: results.append(run_command(command, folder=work, environ=os.environ, stop=control))
    )
    thread.start()
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    control.stop()
    thread.join(20)
    assert results == [Ran(command, "here\n", None, "stopped")]
    pid = int(pid_file.read_text())
    wait_until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


@posix
def test_a_command_has_its_time_and_its_shell(work: Path) -> None:
    ran = run_command("echo a; sleep 600", folder=work, environ=os.environ, stop=NoStop(), max_s=0.3)
    assert (ran.output, ran.status, ran.end) == ("a\n", None, "stopped after 0.3 s")
    gone = run_command("x", folder=work, environ={"SHELL": "/nowhere/sh"}, stop=NoStop())
    assert gone == Ran("x", "", None, "it can't be started: No such file or directory")


@posix
def test_what_a_command_leaves_running_is_not_waited_for(work: Path) -> None:
    ran = run_command("sleep 30 & echo $!", folder=work, environ=os.environ, stop=NoStop())
    assert ran.status == 0 and _runs(int(ran.output))
    os.kill(int(ran.output), signal.SIGKILL)


# -- what leads out, or holds secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mention", "why"),
    [
        ("README.md", "it leads to {out}/id_ed25519, and that often holds secrets"),
        ("twice.md", "it leads to {out}/id_ed25519, and that often holds secrets"),
        ("harmless.md", "it leads to {out}/notes.md, out of {work}"),
        ("folder/notes.md", "it leads to {out}/notes.md, out of {work}"),
        ("folder/../out/notes.md", "it leads to {out}/notes.md, out of {work}"),
        ("folder/", "it leads to {out}, out of {work}"),
        ("{work}/harmless.md", "it leads to {out}/notes.md, out of {work}"),
        ("../out/link.md", ""),
        (".env", "it often holds secrets"),
        ("../out/notes.md", ""),
        ("plain.md", ""),
        ("inside.md", ""),
    ],
)
@pytest.mark.parametrize("trusted", [None, False])
def test_what_leads_out_or_holds_secrets_is_asked(
    work: Path, tmp_path: Path, mention: str, why: str, trusted: bool | None
) -> None:
    out, names = tmp_path / "out", {"out": str(tmp_path / "out"), "work": str(work)}
    for folder, name in ((out, "id_ed25519"), (out, "notes.md"), (work, "plain.md"), (work, ".env")):
        put(folder, name, "MARK")
    links = {"README.md": out / "id_ed25519", "twice.md": work / "README.md", "harmless.md": Path("../out/notes.md"),
             "folder": out, "inside.md": Path("plain.md")}  # fmt: skip
    for name, target in links.items():
        (work / name).symlink_to(target)
    (out / "link.md").symlink_to(work / "plain.md")
    workspace = None if trusted is None else Workspace(work, trusted=trusted)
    why = why.format(**names)
    asked: list[str] = []

    def ask(name: str, reason: str) -> bool:
        asked.append(reason)
        return True

    text = f"See @{mention.format(**names)}"
    refused = attached(text, work, workspace=workspace)
    agreed = attached(text, work, workspace=workspace, ask=ask)
    assert asked == [why] * bool(why) and len(agreed.attachments) == 1
    assert [why in problem for problem in refused.problems] == [True] * bool(why)
    assert len(refused.attachments) == (not why)


def test_what_ossia_keeps_of_the_user_is_asked(work: Path) -> None:
    logins = put(paths.data_dir() / "mcp", "logins.json", "TOKEN")
    refused = attached(f"See @{logins}", work)
    assert not refused.attachments and "often holds secrets" in refused.problems[0]


def test_what_was_asked_about_is_what_goes_along(work: Path, tmp_path: Path) -> None:
    put(tmp_path, "notes.md", "AGREED")
    key, link = put(tmp_path, "key.pem", "PRIVATE"), work / "README.md"
    link.symlink_to(tmp_path / "notes.md")

    def ask(name: str, why: str) -> bool:
        link.unlink()
        link.symlink_to(key)
        return True

    text = attached("@README.md", work, ask=ask).user_text.text
    assert "AGREED" in text and "PRIVATE" not in text


def test_instructions_come_from_no_link_out_of_the_folder(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "notes.md", "outside")
    put(work, "style.md", "inside")
    (work / "out.md").symlink_to("../notes.md")
    (work / "in.md").symlink_to("style.md")
    monkeypatch.chdir(work)
    assert [read_instructions(f"@{name}") for name in ("in.md", "../notes.md")] == ["inside", "outside"]
    with pytest.raises(ExitError, match=rf"it leads to {tmp_path}/notes\.md, out of {work}: name that file itself"):
        read_instructions("@out.md")
