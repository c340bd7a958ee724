"""`ossia skills`, and a run that calls a skill: what the model gets, what is shown of it later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import line_of, ossia, ossia_here, ossia_text, write_script
from tests.support.pty import PtyChat
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
        "user_invocable": True, "model_invocable": True, "bytes": 19, "options": {},
    }  # fmt: skip
    shown = ossia_here("skills", "show", "review")
    assert (shown.stdout, shown.stderr.decode()) == (f"{BODY}\n".encode(), f"ossia: {review}: Review changes.\n")
    assert json.loads(ossia_here("skills", "show", "quiet", "--json").stdout)["text"] == "Be quiet."


def test_an_unknown_one_is_one_line_that_names_the_nearest(own: Path) -> None:
    show, run = ossia_here("skills", "show", "revew"), ossia_here("run", "--skill", "revew", "hi")
    for done, of, names in ((show, "skills show", "quiet, review"), (run, "--skill", "review")):
        why = f"there is no skill 'revew': did you mean review? (there are {names}; `ossia skills list`)"
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


def _saved(*flags: str, **given: Any) -> dict[str, Any]:
    """A run that is stored: the session as it is exported."""
    done = ossia(*flags, "--save", **given)
    assert done.returncode == 0, done.stderr
    last = json.loads(ossia("sessions", "list", "--json").stdout)["sessions"][0]["id"]
    return dict(json.loads(ossia("sessions", "export", last, "--form", "json").stdout))


def test_what_is_piped_in_goes_where_the_skill_says(own: Path, tmp_path: Path) -> None:
    write_skill(own, "diff", "Looks.", "About $ARGUMENTS:\n<<$input>> $inputs $ARGUMENTS")
    engine, piped = write_script(tmp_path, FINAL), b"$ARGUMENTS $input @script.json\n"
    stored = _saved("-t", "diff", "$input a", "--engine", engine, stdin=piped, cwd=tmp_path)
    text = stored["entries"][0]["message"]["content"][0]["text"]
    folder = own.resolve() / "diff"
    assert text == (
        f"/diff $input a\n\nFollow the skill diff; paths in it are relative to {folder}:\n\n"
        "About $input a:\n<<$ARGUMENTS $input @script.json>> $inputs $input a"
    )


COUNT = ("metadata:", "  ossia-effort: high", "  ossia-model: etude", "  ossia-tools: none",
         "  ossia-schema: '{\"type\": \"integer\"}'", "  author: me")  # fmt: skip


def test_options_of_a_skill_win_over_the_file_and_lose_to_flags_and_variables(own: Path, tmp_path: Path) -> None:
    write_skill(own, "count", "Counts.", "Count.", *COUNT)
    config = tmp_path / "config.toml"
    config.write_text('effort = "low"\nmodel = "other"\n')
    flags = ("-t", "count", "--engine", write_script(tmp_path, "<|channel|>final<|message|>7<|return|>"))
    env, no_schema = {"OSSIA_CONFIG": str(config)}, ("--schema", "off")
    for more, variables, effort, schema in (
        ((), {}, "high", {"type": "integer"}),
        (("-e", "medium", "--schema", '{"type": "number"}'), {}, "medium", {"type": "number"}),
        (no_schema, {"OSSIA_EFFORT": "medium"}, "medium", None),
    ):
        stored = _saved(*flags, *more, env=env | variables)
        form = stored["options"]["response_format"]
        assert (stored["options"]["effort"], form and form["schema"]) == (effort, schema)
    assert b"no model 'x'" in ossia(*flags, env=env | {"OSSIA_MODEL": "x"}).stderr
    options = {"effort": "high", "model": "etude", "tools": "none", "schema": '{"type": "integer"}'}
    assert json.loads(ossia_here("skills", "show", "count", "--json").stdout)["options"] == options
    assert b"ossia: ossia-tools: none\n" in ossia_here("skills", "show", "count").stderr
    listed = json.loads(ossia_here("skills", "list", "--json").stdout)["skills"]
    assert [one["options"] for one in listed] == [options, {}, {}]


CALL = "<|channel|>commentary to=functions.nothing <|constrain|>json<|message|>{}<|call|>"
BARE = "No tools are on"


@pytest.mark.parametrize(
    ("tools", "config", "flags", "offered"),
    [
        ("none", "", ("--workspace", "work"), {BARE}),
        ("repo_browser.search, python", "tools = ['mine.py']", ("--workspace", "work"), {"repo_browser.search"}),
        ("python", "no_tools = true", (), {BARE}),
        ("python", "tools = ['browser']", (), {BARE}),
        ("none", "", ("--tools", "mine.py"), {"functions.greet"}),
    ],
)
def test_a_skill_only_takes_tools_away(
    own: Path, tmp_path: Path, tools: str, config: str, flags: tuple[str, ...], offered: set[str]
) -> None:
    write_skill(own, "look", "Looks.", "Look.", "metadata:", f"  ossia-tools: {tools}")
    (tmp_path / "mine.py").write_text("def greet() -> str:\n    'Greets.'\n    return 'hi'\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "config.toml").write_text(config)
    engine = write_script(tmp_path, CALL, FINAL)
    env = {"OSSIA_CONFIG": str(tmp_path / "config.toml")}
    done = ossia("run", "-t", "look", "--engine", engine, "--json", *flags, env=env, cwd=tmp_path)
    result = line_of(done)["calls"][0]["result"]
    named = {BARE} if BARE in result else set(result.partition("The tools are: ")[2].rstrip(".").split(", "))
    assert named - {"python", "container.exec"} == offered, result  # those two need something that confines them


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("effort", "huge", "must be low, medium or high, not 'huge'"),
        *(("model", one, "must be a model's name") for one in ("../evil", "a/b", "http://evil", "x.GGUF", "here", "")),
        *(("tools", one, "must be none, or some of") for one in
          ("mine.py", "os", "functions.x", "none, python", "'*'", "{a: b}", "'python,,browser'")),
        *(("schema", one, "must be a") for one in ("{type: integer}", "here.json", "./here", "")),
        ("schema", "name text", "'name text': expected NAME [TYPE]"),
        ("schema", "'{\"type\": 7}'", "this schema can't be used"),
        ("engine", "http://evil", "isn't an option of a skill: these are ossia-effort"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_used_is_one_line(own: Path, tmp_path: Path, key: str, value: str, said: str) -> None:
    path = write_skill(own, "odd", "Is odd.", "Go.", "metadata:", f"  ossia-{key}: {value}")
    (tmp_path / "here").write_text("{}")
    done = ossia_here("run", "-t", "odd", "hi", "--engine", write_script(tmp_path, FINAL), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    error = done.stderr.decode()
    assert error.startswith(f"ossia: error: {path.resolve()}: metadata: ossia-{key}: {said}")
    assert error.count("\n") == 1


def test_new_writes_a_template_and_never_over_another(own: Path, tmp_path: Path) -> None:
    done = ossia_here("skills", "new", "code-review")
    path = own.resolve() / "code-review" / "SKILL.md"
    assert (done.returncode, done.stdout.decode()) == (0, f"{path}\n"), done.stderr
    assert json.loads(ossia_here("skills", "show", "code-review", "--json").stdout)["options"] == {}
    before = path.read_text()
    (tmp_path / "w").mkdir()
    in_folder = ("--workspace", str(tmp_path / "w"))
    made = ossia_here("skills", "new", "code-review", *in_folder)
    assert made.stdout.decode() == f"{(tmp_path / 'w').resolve() / '.agents/skills/code-review/SKILL.md'}\n"
    write_skill(tmp_path / "w" / ".claude" / "skills", "other")
    (tmp_path / "out").mkdir()
    (tmp_path / "w" / ".agents" / "skills" / "out").symlink_to(tmp_path / "out")
    for name, flags, said in (
        ("code-review", (), f"{path} is there already: ossia skills edit code-review"),
        ("other", in_folder, "is there already"),
        ("out", in_folder, "leads out"),
        ("Review", (), "must be small letters"),
        ("../x", (), "must be small letters"),
        ("x", ("--workspace", str(tmp_path / "none")), "doesn't exist"),
    ):
        done = ossia_here("skills", "new", name, *flags)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), name
        assert said in done.stderr.decode()
    assert path.read_text() == before and not [*(tmp_path / "out").iterdir()]


def test_edit_opens_it_and_says_if_it_cannot_be_used(own: Path, tmp_path: Path) -> None:
    path = (own / "review" / "SKILL.md").resolve()
    ways = [("metadata:", f"  ossia-effort: {effort}") for effort in ("high", "huge")]
    better, worse = (write_skill(tmp_path, "new", "New.", BODY, *way).rename(tmp_path / way[1][-4:]) for way in ways)
    for name, editor, code, said in (
        ("review", f"cp {better}", 0, ""),
        ("review", f"cp {worse}", 2, f"{path}: metadata: ossia-effort: must be low, medium or high, not 'huge'"),
        ("broken", "true", 2, "must begin with front matter"),
        ("nothing", "true", 2, "doesn't exist: `ossia skills list` shows yours, `new` makes one"),
        ("quiet", "/nowhere/vi", 2, "skills edit: /nowhere/vi can't be started"),
    ):
        with PtyChat("skills", "edit", name, environ={"EDITOR": editor, "VISUAL": ""}, columns=250) as terminal:
            assert terminal.wait() == code, name
            assert said in terminal.plain() and terminal.plain().count("\n") == bool(said)
        if not code:
            assert path.read_text() == better.read_text()
    done = ossia_here("skills", "edit", "review")
    why = f"skills edit: there is no terminal for an editor: the file is {path}"
    assert (done.returncode, done.stderr.decode()) == (2, f"ossia: error: {why}\n")


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
    done = ossia("run", "-t", "release", "hi", *flags)
    assert done.returncode == 2 and b"aren't read until you trust it: `ossia trust DIR`, or --trust" in done.stderr
    assert ossia("trust", str(work), "--yes").returncode == 0
    assert b"trusted" not in ossia("run", "hi", *flags).stderr
    theirs.write_text(theirs.read_text().replace("make", "evil"))
    assert b"has changed since you trusted it: its skills are not used" in ossia("run", "hi", *flags).stderr
