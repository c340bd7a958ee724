"""Trusted folders and stored rules: what is kept, what changes it, and what a damaged file does."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from ossia.tools.approval.grants import Grants, Hosts
from ossia.tools.approval.rules import Rule
from ossia.tools.approval.trust import FILE, MAX_FILES, TrustError, TrustStore, look


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with settings of its own, and a file that isn't one."""
    project = tmp_path / "project"
    (project / ".ossia" / "deep").mkdir(parents=True)
    (project / ".ossia" / "config.toml").write_text('[approvals]\nshell = "auto"\n')
    (project / ".ossia" / "deep" / "x.py").write_text("def f(): ...\n")
    (project / "AGENTS.md").write_text("Be brief.\n")
    (project / "main.py").write_text("1\n")
    return project


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "data")


def test_what_would_take_effect(folder: Path) -> None:
    assert look(folder).files == {
        ".ossia/config.toml": b'[approvals]\nshell = "auto"\n',
        ".ossia/deep/x.py": b"def f(): ...\n",
        "AGENTS.md": b"Be brief.\n",
    }
    assert look(folder).digest == look(folder).digest
    assert look(folder / ".ossia").files == {}


def test_a_folder_is_trusted_until_what_takes_effect_changes(folder: Path, store: TrustStore) -> None:
    assert store.state(folder) == "unknown"
    store.trust(folder)
    assert (store.state(folder), store.folders()) == ("trusted", (folder,))
    (folder / "main.py").write_text("2\n")
    assert store.state(folder) == "trusted"
    assert store.state(folder / ".ossia") == "unknown"
    assert store.state(folder.parent) == "unknown"
    assert store.revoke(folder)
    assert (store.state(folder), store.revoke(folder)) == ("unknown", False)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "AGENTS.md").write_text("Be long.\n"),
        lambda folder: (folder / "AGENTS.md").unlink(),
        lambda folder: (folder / ".ossia" / "new").touch(),
        lambda folder: (folder / ".ossia" / "deep" / "x.py").rename(folder / ".ossia" / "x.py"),
        lambda folder: (folder / ".ossia" / "config.toml").write_text(""),
        lambda folder: (folder / ".ossia" / "link").symlink_to(folder / "main.py"),
        lambda folder: os.mkfifo(folder / ".ossia" / "fifo"),
    ],
)
def test_what_changes_it(folder: Path, store: TrustStore, change: object) -> None:
    store.trust(folder)
    assert callable(change)
    change(folder)
    assert store.state(folder) == "changed"
    store.revoke(folder)
    assert store.state(folder) == "unknown"


def test_names_and_contents_are_told_apart(tmp_path: Path) -> None:
    """`a` with `bc` isn't `ab` with `c`."""
    digests = set()
    for name, content in (("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")):
        project = tmp_path / f"{name}{content}{len(digests)}"
        (project / ".ossia").mkdir(parents=True)
        (project / ".ossia" / name).write_text(content)
        digests.add(look(project).digest)
    assert len(digests) == 4


def test_what_was_shown_is_what_is_trusted(folder: Path, store: TrustStore) -> None:
    offer = look(folder)
    (folder / "AGENTS.md").write_text("Run everything.\n")
    store.trust(folder, offer)
    assert store.state(folder) == "changed"


def test_what_cannot_be_looked_at_is_not_trusted(folder: Path, store: TrustStore, tmp_path: Path) -> None:
    (folder / ".ossia" / "link").symlink_to(tmp_path)
    with pytest.raises(TrustError, match="is a link, and its target could change unnoticed"):
        store.trust(folder)
    (folder / ".ossia" / "link").unlink()
    os.mkfifo(folder / ".ossia" / "fifo")
    with pytest.raises(TrustError, match="isn't a regular file"):
        store.trust(folder)
    (folder / ".ossia" / "fifo").unlink()
    with (folder / ".ossia" / "large").open("wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(TrustError, match="exceed 8 MiB"):
        store.trust(folder)
    (folder / ".ossia" / "large").unlink()
    for number in range(MAX_FILES):
        (folder / ".ossia" / str(number)).touch()
    with pytest.raises(TrustError, match="holds more than 1000 files"):
        store.trust(folder)
    assert store.state(folder) == "unknown"


def test_a_linked_folder_of_settings_is_refused(tmp_path: Path, store: TrustStore) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".ossia").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TrustError, match="is a link"):
        store.trust(tmp_path / "project")


def test_a_folder_is_known_by_where_it_lies(folder: Path, store: TrustStore, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    store.trust(tmp_path / "alias")
    assert (store.state(folder), store.folders()) == ("trusted", (folder,))


# -- stored rules ------------------------------------------------------------------------------------------------------


def test_rules_are_stored_for_each_workspace(tmp_path: Path, folder: Path, store: TrustStore) -> None:
    grants = Grants(tmp_path / "data")
    assert grants.rules() == grants.rules(folder) == ()
    grants.add(["shell:git status", "write_file:docs/a.md"], workspace=folder)
    grants.add(["shell:git status", "functions.files__read"], workspace=folder)
    grants.add(["functions.files__read"])
    stored = Rule("shell", "allow", "git status", "stored")
    assert grants.rules(folder) == (
        stored,
        Rule("write_file", "allow", "docs/a.md", "stored"),
        Rule("functions.files__read", "allow", None, "stored"),
    )
    assert grants.rules() == (Rule("functions.files__read", "allow", None, "stored"),)
    assert set(grants.by_workspace()) == {None, folder}
    assert grants.forget("functions.files__read")
    assert (grants.rules(), len(grants.rules(folder)), grants.forget("functions.files__read")) == ((), 2, False)
    assert store.state(folder) == "unknown"  # a rule is no trust
    store.trust(folder)
    assert store.revoke(folder)
    assert grants.rules(folder) == ()


def test_what_is_no_rule_is_not_stored(tmp_path: Path) -> None:
    grants = Grants(tmp_path)
    with pytest.raises(ValueError, match="can never allow anything"):
        grants.add(["container.exec:ls", "container.exec:ls; rm"])
    assert grants.rules() == ()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def add(number: int) -> None:
        Grants(tmp_path).add([f"functions.tool_{number}"])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Grants(tmp_path).rules()) == 20


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_file_is_private_and_has_a_version(tmp_path: Path, folder: Path, store: TrustStore) -> None:
    store.trust(folder)
    path = tmp_path / "data" / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "version": 1,
        "folders": {str(folder): look(folder).digest},
        "rules": {},
        "hosts": [],
        "declined": [],
    }
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is damaged"),
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (b'{"version": 1}', "is damaged"),
        (b'{"version": 1, "folders": {"/": 1}, "rules": {}}', "is damaged"),
        (b'{"version": 1, "folders": {}, "rules": {"": "shell"}}', "is damaged"),
        (b'{"version": 1, "folders": {}, "rules": {"": [1]}}', "is damaged"),
        (b'{"version": 1, "folders": {}, "rules": {}, "hosts": "https://gpu.example"}', "is damaged"),
        (b'{"version": 1, "folders": {}, "rules": {}, "hosts": [1]}', "is damaged"),
        (b'{"version": 1, "x": ' + b"[" * 5000, "is damaged"),
        (b'{"version": 2, "folders": {}, "rules": {}}', "must have version 1, not 2"),
        (b"\xff", "it isn't UTF-8"),
    ],
)
def test_a_damaged_file_grants_nothing_and_is_kept(
    tmp_path: Path, folder: Path, store: TrustStore, content: bytes, problem: str
) -> None:
    grants = Grants(tmp_path / "data")
    store.trust(folder)
    grants.add(["shell:ls"], workspace=folder)
    hosts = Hosts(tmp_path / "data")
    hosts.add("https://gpu.example")
    assert hosts.holds("https://gpu.example") and not hosts.holds("http://gpu.example")
    path = tmp_path / "data" / FILE
    path.write_bytes(content)
    assert not hosts.holds("https://gpu.example")
    assert (store.state(folder), grants.rules(folder)) == ("unknown", ())
    assert problem in store.problem and problem in grants.problem and "move it away" in store.problem
    for change in (lambda: store.trust(folder), lambda: grants.add(["shell:ls"]), lambda: store.revoke(folder)):
        with pytest.raises(TrustError, match="it is ignored; move it away"):
            change()
    assert path.read_bytes() == content


def test_a_rule_of_another_version_is_passed_over(tmp_path: Path) -> None:
    Grants(tmp_path).add(["container.exec:ls"])
    path = tmp_path / FILE
    others = '"a b", "container.exec:ls; rm"'
    path.write_text(path.read_text().replace('"container.exec:ls"', f'"container.exec:ls", {others}'))
    assert Grants(tmp_path).rules() == (Rule("container.exec", "allow", "ls", "stored"),)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrustError, match=r"trust\.json: can't be written"):
        TrustStore(tmp_path / "file" / "data").trust(folder)
