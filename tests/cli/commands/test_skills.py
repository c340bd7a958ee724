"""`ossia skills`, and a run that calls a skill: what the model gets, what is shown of it later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import line_of, ossia, ossia_here, ossia_text, write_script
from tests.support.skills import write_skill
from tests.support.work_calls import reads

FINAL = "<|channel|>final<|message|>Done.<|return|>"
BODY = "Look at $ARGUMENTS."


@pytest.fixture
def own(home: Path) -> Path:
    skills = home / ".agents" / "skills"
    write_skill(skills, "review", "Review changes.", BODY, "argument-hint: '[file]'")
    write_skill(skills, "quiet", "For the model.", "Be quiet.", "user-invocable: false")
    (skills / "broken").mkdir()
    (skills / "broken" / "SKILL.md").write_text("hello")
    return skills


def test_list_and_show(own: Path, tmp_path: Path) -> None:
    write_skill(tmp_path / ".agents" / "skills", "release", "Publish\u202e it.")
    listed = ossia_here("skills", "list", "--workspace", str(tmp_path), "--trust")
    quiet, review = (str(own.resolve() / name / "SKILL.md") for name in ("quiet", "review"))
    assert listed.stdout.decode().splitlines() == [
        "release   6 bytes  .agents/skills/release/SKILL.md",
        "         Publish it.",
        f"quiet     9 bytes  {quiet}",
        "         For the model.",
        f"review   19 bytes  {review}",
        "         Review changes.",
    ]
    assert listed.stderr.startswith(b"ossia: skill not used: ~/.agents/skills/broken/SKILL.md: must begin with front")
    found = json.loads(ossia_here("skills", "list", "--json", "--workspace", str(tmp_path)).stdout)
    assert (found["version"], len(found["skipped"])) == (1, 1)
    assert found["skills"][1] == {
        "name": "review", "description": "Review changes.", "path": review, "from": "user", "hint": "[file]",
        "user_invocable": True, "model_invocable": True, "bytes": 19,
    }  # fmt: skip
    shown = ossia_here("skills", "show", "review")
    assert (shown.stdout, shown.stderr.decode()) == (f"{BODY}\n".encode(), f"ossia: {review}: Review changes.\n")
    assert json.loads(ossia_here("skills", "show", "quiet", "--json").stdout)["text"] == "Be quiet."


def test_an_unknown_one_is_one_line_that_names_the_nearest(own: Path) -> None:
    show, run = ossia_here("skills", "show", "revew"), ossia_here("run", "--skill", "revew", "hi")
    for done, of, names in ((show, "skills show", "quiet, review"), (run, "--skill", "review")):
        why = f"there is no skill 'revew': did you mean review? ({names}; `ossia skills list`)"
        assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"ossia: error: {of}: {why}\n")
    for name, said in (("quiet", b"only the model uses it"), ("broken", b"must begin with front matter")):
        done = ossia_here("run", "--skill", name, "hi")
        assert done.returncode == 2 and said in done.stderr and done.stderr.count(b"\n") == 1


def test_a_run_calls_one_and_a_session_keeps_both_texts(own: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    engine = write_script(tmp_path, FINAL)
    done = ossia("run", "--skill", "review", "@a.txt now", "--engine", engine, "--save", stdin=b"piped", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"Done.\n"), done.stderr
    folder = own.resolve() / "review"
    text = (
        "/review @a.txt now\n\n"
        f"Follow the skill review; paths in it are relative to {folder}:\n\nLook at @a.txt now.\n\n"
        "piped\n\nAttached file a.txt (6 bytes):\n```\nalpha\n```"
    )
    stored = json.loads(ossia("sessions", "list", "--json").stdout)["sessions"][0]
    assert stored["title"] == "/review @a.txt now"
    for form, shown in (("md", text), ("json", json.dumps(text)), ("harmony", json.dumps(text))):
        exported = ossia_text("sessions", "export", stored["id"], "--form", form).stdout
        assert shown in exported, form
    assert '"typed": "/review @a.txt now"' in ossia_text("sessions", "export", stored["id"], "--form", "json").stdout
    assert ossia("run", "--skill", "review", "--engine", engine).stdout == b"Done.\n"  # no question is needed


def test_the_model_reads_those_of_both_folders(own: Path, tmp_path: Path) -> None:
    work, path = tmp_path / "work", own.resolve() / "review"
    theirs = write_skill(work / ".agents" / "skills", "release", "Publish it.", "Run make.")
    (own / "review" / "notes.md").write_text("Notes.")
    (own / "review" / "key").symlink_to(tmp_path / "script.json")
    steps = [reads(str(path / "SKILL.md")), reads("~/.agents/skills/review/notes.md"), reads(str(path / "key")),
             reads(f"{path}/../../../x"), reads(".agents/skills/release/SKILL.md"), FINAL]  # fmt: skip
    flags = ("--engine", write_script(tmp_path, *steps), "--workspace", str(work), "--json", "--deny", "container.exec")
    done = ossia("run", "hi", *flags, "--trust")
    results = [call["result"] for call in line_of(done)["calls"]]
    assert BODY in results[0] and "Notes." in results[1] and "Run make." in results[4]
    assert all("leads out" in result and "version" not in result for result in results[2:4])
    assert done.stderr.count(b"skill not used") == 1
    assert b"the folder work isn't trusted: its skills are not used" in ossia("run", "hi", *flags).stderr
    assert ossia("trust", str(work), "--yes").returncode == 0
    assert b"trusted" not in ossia("run", "hi", *flags).stderr
    theirs.write_text(theirs.read_text().replace("make", "evil"))
    assert b"has changed since you trusted it: its skills are not used" in ossia("run", "hi", *flags).stderr
