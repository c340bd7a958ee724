"""The local library: what is found, what is indexed, and what its file stands."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.tools.approval.policy import Policy
from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.convert.converter import Converter
from ossia.tools.library._store import Row, Seen
from ossia.tools.library.indexing import Event, Failed, Found, Indexed, Skipped, Vanished, index_root
from ossia.tools.library.library import EMPTY, Library, LibraryError, Removed, Root, RootKind
from ossia.tools.library.walk import Ignores
from ossia.tools.spec import NoStop, Stop, ToolCall, ToolContext, ToolFailed, ToolResult
from ossia.tools.toolbox import Toolbox
from tests.support.command import ROOT

NO_STOP = NoStop()


@dataclass
class Web:
    """A `Loader` of pages that are given; what isn't among them can't be fetched."""

    pages: Mapping[str, Document] = field(default_factory=dict)

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        assert refresh and not source
        if url not in self.pages:
            raise ToolFailed("Error: 404 Not Found")
        return self.pages[url]

    def kept(self, url: str, *, source: bool) -> None:
        """Nothing is."""


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "data" / "library.sqlite")


def _write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def _index(library: Library, place: Path | str, *, web: Web | None = None) -> list[Event]:
    kind: RootKind = "url" if "://" in str(place) else "folder" if Path(place).is_dir() else "file"
    return list(index_root(library, library.add_root(kind, str(place)), converter=Converter, web=web))


def _filled(library: Library, folder: Path, files: Mapping[str, str | bytes]) -> Library:
    failed = [event for event in _index(library, _write(folder, files)) if isinstance(event, Failed)]
    assert not failed
    return library


def _names(library: Library, query: str) -> list[str]:
    return [Path(match.origin).name for match in library.find(query, limit=10)]


def _changes(events: list[Event]) -> dict[str, str]:
    return {Path(event.origin).name: event.change for event in events if isinstance(event, Indexed)}


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("模型会调用工具来完成任务", "工具"),
        ("他写了一个函数调用的例子", "函数调用"),
        ("他写了一个函数调用的例子", "如何使用函数调用"),
        ("вызов функции из другой функции", "функци"),
        ("모델이 도구를 사용한다", "도구"),
        ("모델이 도구를 사용한다".encode(), "도구"),
        ("도구".replace("도", "\u1103\u1169"), "도구"),  # decomposed, as macOS writes names
        ("関数を呼び出すツール", "ツール"),
        ("ภาษาไทยไม่มีช่องว่าง", "ไทย"),
        ("हिन्दी भाषा का पाठ", "हिन्दी"),
        ("a café in Łódź", "cafe"),
        ("a cafe at night", "CAFÉ"),
        ("the \ufb01le of a PDF", "file"),
        ("ＦＵＬＬ width", "full"),
        ("die Straße", "strasse"),
        ("what `snake_case_name` means", "snake_case_name"),
        ("what `snake_case_name` means", "case"),
        ("configuration of tools", "tools configu"),
        ("the language C and others", "C"),
        ("see RFC-2616, section 4", "rfc2616 RFC 2616"),
    ],
)
def test_finds(library: Library, tmp_path: Path, text: str | bytes, query: str) -> None:
    _filled(library, tmp_path / "docs", {"it.txt": text, "other.txt": "nothing of all that; x y z"})
    assert _names(library, query) == ["it.txt"]


@pytest.mark.parametrize(
    "query",
    [
        *(
            '" OR 1=1',
            '"',
            "'",
            "AND",
            "a AND OR NOT",
            "NEAR(a b",
            "title:x",
            "*",
            "^a",
            "{title text}: a",
            "-",
            "( (",
            "",
        ),
        *("\x00", "\ud800", "a\x00b", "x" * 10_000, "word " * 2_000, '"' * 10_000, "工" * 10_000, "e " * 5_000),
        " ".join(f"w{number}" for number in range(2_000)),
    ],
)
def test_hostile_row_14_a_query_is_never_more_than_words(library: Library, tmp_path: Path, query: str) -> None:
    """Spec §4 row 14. (How long they take is measured: `python -m tests.bench.library`.)"""
    _filled(library, tmp_path / "docs", {"a.txt": "some words or other, e.g. 1=1", "b.txt": "工具"})
    for hit in library.search(query, limit=5, stop=NO_STOP):
        assert hit.url in ("doc:1", "doc:2")
    result = _call(_toolbox(library), "search", query=query)
    assert not result.error or result.text.startswith(("Error", "`query`")), result.text


def _toolbox(library: Library) -> Toolbox:
    def count(text: str) -> int:
        return len(text) // 4

    browser = Browser([library], {"doc": library}, count_view_tokens=count)
    context = ToolContext(stop=NO_STOP, workspace=None, data_dir=library.path.parent, count_tokens=count)
    return Toolbox(browser.tools, policy=Policy(), context=context)


def _call(toolbox: Toolbox, name: str, **arguments: object) -> ToolResult:
    running = toolbox.run(ToolCall("c", f"browser.{name}", json.dumps(arguments)), stop=NO_STOP)
    while True:
        try:
            next(running)
        except StopIteration as ended:
            result: ToolResult = ended.value
            return result


def test_the_model_searches_opens_and_follows_links(library: Library, tmp_path: Path) -> None:
    toolbox = _toolbox(library)
    empty = _call(toolbox, "search", query="capybara")
    assert empty.error and empty.text == (
        f"Error during search for `capybara`: {EMPTY}. "
        "No web search service is set up: `browser.open` of a URL works without one"
    )
    files = {
        "start.html": "<title>Start</title><p>All about <a href='capybara.html'>capybaras</a>.",
        "capybara.html": "<title>Capybara</title><p>It eats green grass.",
    }
    _filled(library, tmp_path / "docs", files)
    found = _call(toolbox, "search", query="about capybaras", source="docs")
    assert "【0†Start" in found.text
    assert found.taints == {"private"}
    opened = _call(toolbox, "open", id=0)
    assert "All about 【0†capybaras】." in opened.text
    followed = _call(toolbox, "open", id=0)
    assert "It eats green grass." in followed.text
    assert "doc:1" in followed.text
    assert followed.taints == {"private"}


def test_in_a_large_library_a_rare_word_counts_among_common_ones(library: Library) -> None:
    common = [f"word{number}" for number in range(12)]
    root = library.add_root("folder", "/somewhere")
    texts = [f"{' '.join(common[:11])} x{number}" for number in range(2_000)] + [f"{' '.join(common[:6])} capybara"]
    seen = Seen(0, 0, b"", 1)
    library.put(root, [Row(f"/somewhere/{n}", f"{n}", seen, "title", text, text) for n, text in enumerate(texts)])
    query = " ".join([*common[:11], "capybara"])
    assert library.find(query, limit=5)[0].origin == "/somewhere/2000"
    assert len(library.find(" ".join(common), limit=5)) == 5
    assert library.find("word11", limit=5) == ()


def test_documents_with_every_word_come_first_and_titles_weigh_more(library: Library, tmp_path: Path) -> None:
    files = {
        "one.md": "# Snippets\n" + "snippets " * 50,
        "both.txt": "long text about other things. " * 100 + "a capybara in a list of snippets",
        "title.md": "# Capybara\nan animal",
        "text.txt": "the capybara is an animal",
    }
    _filled(library, tmp_path / "docs", files)
    assert _names(library, "capybara snippets")[0] == "both.txt"
    assert set(_names(library, "capybara snippets")) == set(files)
    assert _names(library, "capybara animal") == ["title.md", "text.txt", "both.txt"]


def test_a_title_weighs_more_than_the_text(library: Library, tmp_path: Path) -> None:
    files = {
        "title.html": "<title>Capybara</title><p>an animal at the river",
        "text.html": "<title>River</title><p>the capybara, an animal",
    }
    _filled(library, tmp_path / "docs", files)
    assert _names(library, "capybara") == ["title.html", "text.html"]


def test_vowels_are_part_of_a_word(library: Library, tmp_path: Path) -> None:
    _filled(library, tmp_path / "docs", {"a.txt": "हिन्दी"})
    assert (_names(library, "हिन्दी"), _names(library, "हान")) == (["a.txt"], [])


def test_found_by_the_name_of_the_file(library: Library, tmp_path: Path) -> None:
    _filled(library, tmp_path / "docs", {"report-2023.md": "# Annual figures\nall fine", "b.md": "# Other\nx"})
    assert _names(library, "report 2023") == ["report-2023.md"]


def test_a_snippet_shows_the_words_where_they_stand_together(library: Library, tmp_path: Path) -> None:
    far = "filler text here. " * 8_000
    files = {
        "far.txt": f"{far}{far}{far} see paragraph seventeen {far}",
        "en.txt": f"a capybara. {far} the capybara likes green grass in the morning {far}",
        "twice.txt": f"{far[:3_000]} green first green {far[:3_000]} green second",
        "zh.txt": "前言。" * 1_000 + "模型调用工具 (tool) 很有用" + "结尾。" * 1_000,
        "fr.txt": "rien " * 500 + "un café crème" + " rien" * 500,
    }
    _filled(library, tmp_path / "docs", files)
    found = library.find("capybara grass 工具 cafe seventeen green", limit=9)
    shown = {Path(match.origin).name: match.snippet for match in found}
    assert "the capybara likes green grass in the morning" in shown["en.txt"]
    assert shown["en.txt"].startswith("… ")
    assert shown["en.txt"].endswith(" …")
    assert "green first green" in shown["twice.txt"]
    assert "see paragraph seventeen filler" in shown["far.txt"]
    assert "模型调用工具 (tool) 很有用" in shown["zh.txt"]
    assert "un café crème" in shown["fr.txt"]
    assert all(len(text) <= 250 for text in shown.values())


def test_a_snippet_holds_no_links_not_even_half_of_one(library: Library, tmp_path: Path) -> None:
    around = "".join(f"<a href='https://very-long-domain-{n}.test/'>link{n}</a> " for n in range(300))
    words = {f"page{n}.html": f"<p>{'x ' * n}{around} the middle {around}" for n in range(25)}
    _filled(library, tmp_path / "docs", words)
    found = library.find("middle", limit=25)
    assert len(found) == 25
    for match in found:
        assert "the middle link0" in match.snippet
        assert not set(match.snippet) & set("【】†"), match.snippet


def test_it_is_the_source_docs_whose_results_are_private(library: Library, tmp_path: Path) -> None:
    _filled(library, tmp_path / "docs", {"a.md": "# Ideas\nAn idea about 【1†x】 brackets."})
    assert (library.name, library.taints, library.sends) == ("docs", {"private"}, False)
    hits = library.search("idea", limit=3, stop=NO_STOP)
    assert hits == (Hit("Ideas", "doc:1", "# Ideas An idea about 〖1†x〗 brackets."),)
    page = Document("Ideas", "doc:1", "# Ideas\nAn idea about 〖1†x〗 brackets.")
    assert library.load("doc:1", refresh=False, stop=NO_STOP) == page
    assert library.origin("doc:1") == str(tmp_path / "docs" / "a.md")
    assert library.search("nowhere", limit=3, stop=NO_STOP) == ()


@pytest.mark.parametrize(
    "url", ["doc:2", "doc:", "doc:x", "doc:-1", "doc:1/../2", "doc:" + "9" * 40, "doc:²", "file:///etc/passwd"]
)
def test_a_document_that_there_is_not(library: Library, tmp_path: Path, url: str) -> None:
    with pytest.raises(ToolFailed, match="no document"):
        library.load(url, refresh=False, stop=NO_STOP)
    _filled(library, tmp_path / "docs", {"a.md": "x"})
    with pytest.raises(ToolFailed, match="no document"):
        library.load(url, refresh=False, stop=NO_STOP)


def test_an_empty_library_says_how_to_fill_it(library: Library, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed) as failed:
        library.search("anything", limit=3, stop=NO_STOP)
    assert str(failed.value) == EMPTY == "The local library is empty: `ossia docs add PATH` adds to it"
    assert not library.path.exists(), "looking makes no file"
    assert (library.roots(), library.count(), library.remove("/x")) == ((), 0, None)


def test_a_stopped_search_ends(library: Library, tmp_path: Path) -> None:
    class Stopped:
        stopped = True

        def on_stop(self, callback: object) -> object:
            raise AssertionError

    words = " ".join(f"word{number}" for number in range(3_000))
    _filled(library, tmp_path / "docs", {f"{number}.txt": words for number in range(60)})
    with pytest.raises(ToolFailed, match="stopped"):
        library.search("word1 word2 word", limit=3, stop=Stopped())  # type: ignore[arg-type]
    assert library.search("word1 word2 word", limit=3, stop=NO_STOP)


# -- what is indexed ---------------------------------------------------------------------------------------------------


def test_a_page_without_a_title_is_called_by_its_file(library: Library, tmp_path: Path) -> None:
    pages = {"plain.html": "<p>Llamas graze.", "sub/empty.html": "<title></title><p>Llamas."}
    _filled(library, tmp_path / "docs", pages)
    assert {match.title for match in library.find("llamas", limit=5)} == {"plain.html", str(Path("sub/empty.html"))}


def test_which_files_of_a_folder_are_documents(library: Library, tmp_path: Path) -> None:
    outside = _write(tmp_path / "outside", {"private.txt": "not yours"})
    docs = _write(
        tmp_path / "docs",
        {
            "notes.txt": "text",
            "sub/deep/Makefile": "all:\n\ttrue\n",
            "code.py": "print('é')",
            "latin.txt": "d\xe9j\xe0 vu".encode("latin-1"),
            "wide.txt": "Grüße".encode("utf-16"),
            "page": "<!DOCTYPE html><title>A page</title><p>text",
            "book.ipynb": '{"cells": [{"source": ["# Title\\n", "x"]}, {"source": "1+1", "outputs": ["iVBORw0KG"]}]}',
            "empty.txt": " \n",
            "picture.png": b"\x89PNG",
            "program": b"\x7fELF\x00\x00",
            "lies.pdf": "no PDF",
            "lies.ipynb": "{}",
            "big.log": b"x" * 4_000_001,
            ".env.local": "TOKEN=1",
            "id_rsa": "x",
            "note-with-key.txt": "my key\n-----BEGIN OPENSSH PRIVATE KEY-----\n",
            ".hidden/a.txt": "x",
            ".git/config": "x",
            "node_modules/left/index.js": "x",
            "env/pyvenv.cfg": "x",
            "app.min.js": "x",
            "uv.lock": "x",
            ".gitignore": "*.tmp\n/out/\n!keep.tmp\n",
            "a.tmp": "x",
            "keep.tmp": "x",
            "out/made.txt": "x",
            "sub/out/kept.txt": "x",
        },
    )
    (docs / "link.txt").symlink_to(outside / "private.txt")
    (docs / "link").symlink_to(outside)
    os.mkfifo(docs / "fifo")
    events = _index(library, docs)
    skipped = {event.origin.removeprefix(f"{docs}/"): event.reason for event in events if isinstance(event, Skipped)}
    assert {Path(event.origin).name: event.title for event in events if isinstance(event, Indexed)} == {
        "notes.txt": "notes.txt",
        "Makefile": "sub/deep/Makefile",
        "code.py": "code.py",
        "latin.txt": "latin.txt",
        "wide.txt": "wide.txt",
        "page": "A page",
        "book.ipynb": "Title",
        "keep.tmp": "keep.tmp",
        "kept.txt": "sub/out/kept.txt",
    }
    assert skipped == {
        "empty.txt": "empty",
        "picture.png": "binary",
        "program": "binary",
        "lies.pdf": "not a PDF, despite its name",
        "lies.ipynb": "not a notebook, despite its name",
        "big.log": "larger than 4 MB",
        ".env.local": "may hold secrets",
        "id_rsa": "may hold secrets",
        "note-with-key.txt": "may hold secrets",
        ".hidden/": "hidden",
        ".git/": "hidden",
        ".gitignore": "hidden",
        "node_modules/": "generated",
        "env/": "generated",
        "app.min.js": "generated",
        "uv.lock": "generated",
        "a.tmp": "in .gitignore",
        "out/": "in .gitignore",
        "link.txt": "symbolic link",
        "link": "symbolic link",
        "fifo": "not a regular file",
    }
    assert [event for event in events if isinstance(event, Failed | Vanished)] == []
    assert (_names(library, "déjà"), _names(library, "Grüße"), _names(library, "iVBORw0KG")) == (
        ["latin.txt"],
        ["wide.txt"],
        [],
    )


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "text\n\n## The `first` *one* ##\n# Second", "The first one"),
        ("a.md", "```\n# a comment\n```\nTitle\n=====\n", "Title"),
        ("a.md", "---\ntags: [x]\ntitle: 'From the front'\n---\n# Other", "From the front"),
        ("a.md", '+++\ntitle = "From TOML"\n+++\n', "From TOML"),
        ("a.md", "---\ntags: x\n---\n# Heading", "Heading"),
        ("a.md", "no heading", "a.md"),
        ("a.rst", "=======\nHeading\n=======\n\ntext", "Heading"),
        ("a.md", "# \x1b]0;x\x07evil 【1†y】\u202e", "]0;xevil 〖1†y〗"),
        ("a.md", "# " + "long " * 100, ("long " * 40).strip()),
        ("sub/a.txt", "# not Markdown", "sub/a.txt"),
    ],
)
def test_titles(library: Library, tmp_path: Path, name: str, text: str, title: str) -> None:
    (event,) = [e for e in _index(library, _write(tmp_path / "docs", {name: text})) if isinstance(e, Indexed)]
    assert event.title == title


def test_html_is_converted_and_links_lead_to_documents_of_the_library(library: Library, tmp_path: Path) -> None:
    files = {
        "index.html": "<title>Start</title><p>See <a href='sub%20dir/other.html#x'>the other</a>, <a href='gone.html'>"
        "what is gone</a>, <a href='https://a.test/x'>the web</a> and <a href='sub%20dir/'>a folder</a>.",
        "sub dir/other.html": "<title>Other</title><p>Back to <a href='../index.html'>the start</a>.",
        "sub dir/index.html": "<title>Folder</title><p>text",
    }
    _filled(library, tmp_path / "docs", files)
    ids = {match.title: match.id for match in library.find("start text", limit=5)}
    page = library.load(f"doc:{ids['Start']}", refresh=False, stop=NO_STOP)
    assert " ".join(page.text.split()) == (
        "See 【0†the other】, what is gone, 【2†the web†a.test】 and 【3†a folder】."
    )
    other = next(match.id for match in library.find("back", limit=1))
    assert page.links == {0: f"doc:{other}", 2: "https://a.test/x", 3: f"doc:{ids['Folder']}"}
    assert library.find("gone", limit=1)[0].snippet == "See the other, what is gone, the web and a folder."


def test_a_folder_that_nothing_can_be_asked_about_ends_nothing(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {"a.txt": "here"})
    deep = docs
    while (left := 4090 - len(os.fsencode(deep))) > 0:  # a file's name in the last one is longer than any may be
        deep /= "d" * (left - 1 if left < 250 else 100)
        deep.mkdir()
    assert [type(event) for event in _index(library, docs)] == [Found, Indexed]


def test_a_file_that_cannot_be_converted_is_told_and_the_rest_goes_on(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {"broken.pdf": b"%PDF-1.7 broken", "good.txt": "text"})
    events = _index(library, docs)
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.origin == str(docs / "broken.pdf")
    assert failed.reason
    assert "Error" not in failed.reason
    assert _changes(events) == {"good.txt": "added"}


def test_only_what_changed_is_read_again(library: Library, tmp_path: Path) -> None:
    files = {"same.txt": "one", "touched.txt": "two", "changed.txt": "three", "gone.txt": "four", "spoilt.txt": "five"}
    docs = _write(tmp_path / "docs", files)
    assert set(_changes(_index(library, docs)).values()) == {"added"}
    before = library.known(library.roots()[0])
    _write(docs, {"changed.txt": "other words", "new.txt": "six"})
    (docs / "spoilt.txt").write_bytes(b"\x00\x01")
    (docs / "gone.txt").unlink()
    os.utime(docs / "touched.txt", ns=(1, 1))
    events = _index(library, docs)
    assert _changes(events) == {
        "changed.txt": "updated",
        "new.txt": "added",
        "same.txt": "unchanged",
        "touched.txt": "unchanged",
    }
    assert events[0] == Found(str(docs), 5)
    assert events[-1] == Vanished(str(docs), 2)
    after = library.known(library.roots()[0])
    changed = str(docs / "changed.txt")
    assert after[changed].id == before[changed].id, "an open page of a conversation stays that document"
    assert after[str(docs / "touched.txt")].seen.mtime_ns == 1
    assert (_names(library, "three"), _names(library, "other"), _names(library, "four")) == ([], ["changed.txt"], [])


def test_what_cannot_be_looked_at_is_kept(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "disk" / "docs", {"a.txt": "kept"})
    _index(library, docs)
    docs.parent.rename(tmp_path / "elsewhere")
    (root,) = library.roots()
    events = list(index_root(library, root, converter=Converter, web=None))
    assert events == [Failed(str(docs), "no such file or directory"), Found(str(docs), 0)]
    assert _names(library, "kept") == ["a.txt"]


@pytest.mark.parametrize("stored_first", [False, True])
def test_an_interrupt_while_a_batch_is_stored_loses_nothing_of_it(tmp_path: Path, stored_first: bool) -> None:
    class Interrupted(Library):
        times = 0

        def put(self, root: Root, rows: Sequence[Row], *, touched: Mapping[str, Seen] | None = None) -> bool:
            self.times += 1
            if self.times == 1 and not stored_first:
                raise KeyboardInterrupt
            done = super().put(root, rows, touched=touched)
            if self.times == 1:
                raise KeyboardInterrupt
            return done

    library = Interrupted(tmp_path / "library.sqlite")
    folder = _write(tmp_path / "docs", {"a.txt": "apples", "b.txt": "berries"})
    told = []
    with pytest.raises(KeyboardInterrupt):
        for event in index_root(library, library.add_root("folder", str(folder)), converter=Converter, web=None):
            told.append(event)
    assert len([event for event in told if isinstance(event, Indexed)]) == library.count() == 2


def test_an_index_that_is_cut_off_keeps_what_it_did_and_goes_on(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {f"{number:02}.txt": f"text number{number}" for number in range(30)})
    root = library.add_root("folder", str(docs))
    run = index_root(library, root, converter=Converter, web=None)
    for event in run:
        if isinstance(event, Indexed) and event.origin.endswith("09.txt"):
            run.close()  # type: ignore[attr-defined]
            break
    assert library.count() == 10
    changes = list(_changes(_index(library, docs)).values())
    assert (changes.count("unchanged"), changes.count("added"), library.count()) == (10, 20, 30)


def test_a_stop_ends_it_without_taking_out_what_was_not_looked_at(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {f"{number:02}.txt": "text" for number in range(30)})
    _index(library, docs)

    control, seen = Control(), 0
    for event in index_root(library, library.roots()[0], converter=Converter, web=None, stop=control):
        seen += isinstance(event, Indexed)
        if seen == 3:
            control.stop()
    assert 3 <= seen < 30
    assert library.count() == 30


def test_a_stop_ends_a_conversion_and_nothing_counts_as_failed(library: Library, tmp_path: Path) -> None:
    """Also that of a URL: the root stays, and the next run reads it."""
    control, under_way = Control(), threading.Event()

    class Slow(Converter):
        def convert(self, body, media_type, *, url, charset, stop, source=False):  # type: ignore[no-untyped-def]
            under_way.set()
            ended = threading.Event()
            stop.on_stop(ended.set)
            assert ended.wait(60)
            raise ToolFailed("interrupted by the user")

    root = library.add_root("folder", str(_write(tmp_path / "docs", {"a.html": "<p>words", "b.txt": "words"})))
    stopper = threading.Thread(target=lambda: under_way.wait(60) and control.stop())
    stopper.start()
    events = list(index_root(library, root, converter=Slow, web=None, stop=control))
    stopper.join()
    assert events[0] == Found(root.place, 2) and not [event for event in events if isinstance(event, Failed)]
    assert library.count() == len(events) - 1
    assert len(_index(library, Path(root.place))) == 3 and library.count() == 2
    assert (
        list(index_root(library, library.add_root("url", "http://a.test/"), converter=Slow, web=Web(), stop=control))
        == []
    )


def test_a_url_is_stored_and_read_again(library: Library) -> None:
    url = "https://a.test/page"
    web = Web({url: Document("A page", url, "see 【0†that】", {0: "https://a.test/that"})})
    assert _index(library, url, web=web) == [Indexed(url, "A page", "added")]
    assert _index(library, url, web=web) == [Indexed(url, "A page", "unchanged")]
    toolbox = _toolbox(library)
    for name, arguments in (("search", {"query": "page"}), ("open", {"id": 0}), ("find", {"pattern": "see"})):
        assert _call(toolbox, name, **arguments).taints == {"private", "outside"}, name  # somebody else wrote it
    web.pages = {url: Document("A page", url, "other words")}
    assert _index(library, url, web=web) == [Indexed(url, "A page", "updated")]
    web.pages = {}
    assert _index(library, url, web=web) == [Failed(url, "404 Not Found")]
    assert library.search("words", limit=1, stop=NO_STOP) == (Hit("A page", "doc:1", "other words"),)
    assert library.remove(url) == Removed(1, kept_out=False)
    assert library.roots() == ()


# -- roots -------------------------------------------------------------------------------------------------------------


def test_a_root_inside_a_root(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {"a.txt": "one", "sub/b.txt": "two", "sub_too/c.txt": "three"})
    _index(library, docs)
    assert _changes(_index(library, docs / "sub")) == {"b.txt": "unchanged"}
    assert [(root.place, root.documents) for root in library.roots()] == [(str(docs), 2), (str(docs / "sub"), 1)]
    assert _changes(_index(library, docs)) == {"a.txt": "unchanged", "c.txt": "unchanged"}
    assert library.count() == 3
    assert library.remove(str(docs / "sub")) == Removed(1, kept_out=True)
    assert _changes(_index(library, docs)) == {"a.txt": "unchanged", "c.txt": "unchanged"}
    assert library.remove(str(docs)) == Removed(2, kept_out=False)
    assert (library.roots(), library.count()) == ((), 0)


def test_what_was_taken_out_stays_out_until_it_is_added_again(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {"a.txt": "one", "diary.txt": "two"})
    _index(library, docs)
    diary = library.find("two", limit=1)[0]
    assert library.remove(f"doc:{diary.id}") == Removed(1, kept_out=True)
    assert _changes(_index(library, docs)) == {"a.txt": "unchanged"}
    assert library.left_out() == {diary.origin}
    assert _changes(_index(library, docs / "diary.txt")) == {"diary.txt": "added"}
    assert library.left_out() == frozenset()
    assert _names(library, "two") == ["diary.txt"]
    assert library.find("two", limit=1)[0].id != diary.id, "an old doc: URL never leads to something else"


@pytest.mark.parametrize("what", ["/nowhere", "doc:99", "99", "https://a.test/", ""])
def test_nothing_to_take_out(library: Library, tmp_path: Path, what: str) -> None:
    _filled(library, tmp_path / "docs", {"a.txt": "one"})
    assert library.remove(what) is None
    assert library.count() == 1


def test_what_is_taken_out_leaves_the_file(library: Library, tmp_path: Path) -> None:
    files = {"a.txt": "one", "diary.txt": "a very unusualword of mine " + " ".join(map(str, range(50_000)))}
    _filled(library, tmp_path / "docs", files)
    stored = b"".join(path.read_bytes() for path in library.path.parent.iterdir())
    assert b"unusualword" in stored
    before = library.path.stat().st_size
    library.remove(str(tmp_path / "docs" / "diary.txt"))
    stored = b"".join(path.read_bytes() for path in library.path.parent.iterdir())
    assert b"unusualword" not in stored
    assert library.path.stat().st_size < before / 4


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_only_the_user_can_read_it(library: Library, tmp_path: Path) -> None:
    _filled(library, tmp_path / "docs", {"a.txt": "one"})
    with sqlite3.connect(library.path) as db:  # while somebody has it open there is a -wal beside it
        db.execute("UPDATE roots SET kind=kind")
        db.commit()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in library.path.parent.iterdir()}
    db.close()
    assert set(modes.values()) == {0o600}
    assert len(modes) > 1
    assert stat.S_IMODE(library.path.parent.stat().st_mode) == 0o700


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=2")
    db.close()


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t(a)")
    db.close()


def _torn(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xaa" * (len(data) - 4096))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6_000])


def _text(path: Path) -> None:
    path.write_text("no database at all, but some text that is longer than a header of a hundred bytes " * 3)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_newer, "must be of version 1, not 2: use the ossia that wrote it"),
        (_foreign, "a database of another program"),
        (_torn, "not a whole database"),
        (_cut, "not a whole database"),
        (_text, "not a whole database"),
    ],
)
def test_a_file_that_is_no_library_of_ours_is_told_and_left_alone(
    library: Library,
    tmp_path: Path,
    spoil,
    message: str,  # type: ignore[no-untyped-def]
) -> None:
    docs = _write(tmp_path / "docs", {f"{number}.txt": f"one {number}" * 100 for number in range(50)})
    _index(library, docs)
    spoil(library.path)
    before = library.path.read_bytes()
    root = Root(1, "folder", str(docs))
    for use in (
        lambda: library.find("one", limit=1),
        library.roots,
        lambda: library.add_root("folder", "/x"),
        lambda: library.remove("/x"),
        lambda: list(index_root(library, root, converter=Converter, web=None)),
    ):
        with pytest.raises(LibraryError, match=message) as failed:
            use()
        assert str(failed.value).startswith(str(library.path))
        assert "\n" not in str(failed.value)
    with pytest.raises(ToolFailed, match=message):
        library.search("one", limit=1, stop=NO_STOP)
    with pytest.raises(ToolFailed, match=message):
        library.load("doc:1", refresh=False, stop=NO_STOP)
    assert library.path.read_bytes() == before


def test_a_place_where_no_file_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LibraryError, match="can't be used"):
        Library(tmp_path / "file" / "library.sqlite").add_root("folder", "/x")


_FILLS = """
import sys
from pathlib import Path
from ossia.tools.convert.converter import Converter
from ossia.tools.library.indexing import index_root
from ossia.tools.library.library import Library
library = Library(Path(sys.argv[1]))
for event in index_root(library, library.add_root("folder", sys.argv[2]), converter=Converter, web=None):
    library.find("word", limit=3)
"""


def test_several_processes_fill_and_search_one_library(library: Library, tmp_path: Path) -> None:
    folders = [_write(tmp_path / name, {f"{i}.txt": f"word {name} {i}" for i in range(60)}) for name in ("a", "b")]
    command = [sys.executable, "-P", "-c", _FILLS, str(library.path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    fillers = [
        subprocess.Popen([*command, str(folder)], cwd=ROOT, stderr=subprocess.PIPE, env=env)
        for folder in (*folders, folders[0])
    ]
    said = [(filler.communicate(timeout=60)[1], filler.returncode) for filler in fillers]
    assert said == [(b"", 0)] * 3
    assert library.count() == 120
    assert len(library.find("word", limit=100)) == 100
    with sqlite3.connect(library.path) as db:
        db.execute("INSERT INTO words(words) VALUES('integrity-check')")
    db.close()


def test_threads_search_while_another_fills(library: Library, tmp_path: Path) -> None:
    docs = _write(tmp_path / "docs", {f"{number}.txt": f"word {number}" for number in range(150)})
    root, failures, done = library.add_root("folder", str(docs)), [], threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                library.find("word", limit=3)
        except BaseException as error:
            failures.append(error)

    searchers = [threading.Thread(target=search) for _ in range(2)]
    for thread in searchers:
        thread.start()
    for _ in index_root(library, root, converter=Converter, web=None):
        pass
    done.set()
    for thread in searchers:
        thread.join()
    assert failures == []
    assert library.count() == 150


# -- .gitignore --------------------------------------------------------------------------------------------------------

_PATTERNS = """\
# a comment
*.log
!keep.log
/top.txt
build/
doc/*.txt
**/deep/x
a/**/b
tail/**
\\#file
\\!file
\\*star
sp\\ ace
trail\x20\x20
f[0-9]o
g[!a-c]o
q?e
[broken
*.b*k
"""


_PATHS = (
    *("x.log", "keep.log", "s/x.log", "s/keep.log", "é.log", "top.txt", "s/top.txt", "doc/a.txt", "doc/s/a.txt"),
    *("s/doc/a.txt", "deep/x", "s/deep/x", "s/t/deep/x", "deep/s/x", "a/b", "a/s/b", "a/s/t/b", "c/a/b", "tail/x"),
    *("tail/s/x", "s/tail/x", "#file", "!file", "*star", "a*star", "sp ace", "trail", "f1o", "fxo", "f/o"),
    *("gao", "gdo", "qwe", "q/e"),
    *("[broken", "x.bak", "x.b", "build"),  # build: a file, and the pattern wants a folder
)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
def test_gitignore_as_git_has_it(tmp_path: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=env)
    (tmp_path / ".gitignore").write_text(_PATTERNS)
    asked = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(_PATHS).encode(),
        capture_output=True,
        check=False,
    )
    theirs = {path for path in asked.stdout.decode().split("\0") if path}
    ignores = Ignores().within("", _PATTERNS)
    ours = {path for path in _PATHS if ignores.ignored(path, folder=False)}
    assert ours == theirs
    assert ignores.ignored("s/build", folder=True)
    inner = ignores.within("s", "!x.log\n/only\n")
    assert [inner.ignored(path, folder=False) for path in ("s/x.log", "x.log", "s/only", "only", "s/t/only")] == [
        *(False, True, True, False, False)
    ]
