"""Skills in the chat: named in the prompt, called with `/NAME`, listed with what they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.cli.chat.commands.inspect import harmony_of
from ossia.cli.runtime.session import Resume
from ossia.tools.approval.trust import TrustStore
from ossia.tools.skills import MAX_TOKENS
from tests.support.command import write_script
from tests.support.screen import ChatScreen, chatting
from tests.support.skills import write_skill

DONE = "<|channel|>final<|message|>Done.<|return|>"


@pytest.fixture
def own(home: Path) -> Path:
    skills = home / ".agents" / "skills"
    write_skill(skills, "review", "Review changes.", "Look at $ARGUMENTS.", "argument-hint: '[file]'")
    write_skill(skills, "undo", "Undo a release.")
    write_skill(skills, "quiet", "For the model.", "Be quiet.", "user-invocable: false")
    write_skill(skills, "loud", "For me.", "Be loud.", "disable-model-invocation: true")
    return skills


async def send(stage: ChatScreen, *lines: str) -> None:
    for line in lines:
        await stage.type(f"{line}\r")
        await stage.settle()


def prompt_of(stage: ChatScreen) -> str:
    """The last prompt, without the user's words."""
    assert stage.talk.loaded is not None
    return harmony_of(stage.talk.session, stage.talk.loaded)[0].partition("<|start|>user")[0]


def said(stage: ChatScreen) -> list[str]:
    return [message.text for message in stage.talk.session.messages if message.role == "user"]


def test_a_skill_is_called_shown_as_typed_and_stored_with_both(own: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    engine, whole = write_script(tmp_path, DONE, DONE, DONE, DONE), {}
    text = f"Follow the skill review; paths in it are relative to {own.resolve() / 'review'}:\n\nLook at"

    async def case() -> None:
        async with ChatScreen(engine=engine, titles="question") as stage:
            await send(stage, f"/review @{tmp_path}/a.txt", "//review x", "/loud")
            assert said(stage)[0].startswith(
                f"/review @{tmp_path}/a.txt\n\n{text} @{tmp_path}/a.txt.\n\nAttached file "
            )
            assert said(stage)[1] == "/review x"  # a text that begins with a slash
            assert said(stage)[2].endswith(":\n\nBe loud.")
            taints = [entry.taints for entry in stage.talk.session.entries if entry.message.role == "user"]
            assert taints == [{"private"}, frozenset(), {"private"}]
            assert stage.talk.session.said.count("\n") == 2
            rows = stage.rows
            shown = [row.partition(" @")[0] for row in rows if row.startswith("› /")]  # a long path stands below
            assert shown == ["› /review", "› /review x", "› /loud"]
            assert not any("Follow the skill" in row for row in rows)
            await send(stage, "/edit 3")
            assert stage.face.editor.text == "/loud"
            await send(stage, "")
            assert stage.talk.session.ends == ("answered",) * 3 and said(stage)[2].endswith(":\n\nBe loud.")
            whole["said"] = said(stage)
        async with ChatScreen(engine=engine, resume=Resume(latest=True)) as stage:
            await stage.settle()
            assert said(stage) == whole["said"]
            assert "› /loud" in stage.rows and not any("Be loud" in row for row in stage.rows)

    chatting(case)


def test_the_list_completion_and_help(own: Path, tmp_path: Path) -> None:
    (own / "broken").mkdir()
    (own / "broken" / "SKILL.md").write_text("hello")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, DONE), columns=80, rows=40) as stage:
            await send(stage, "/skills")
            text = " ".join(" ".join(stage.rows).split())
            assert "Skills: 4; the prompt lists none of them" in text  # there is no workspace, so nothing reads them
            assert "/undo is a command of the chat, which wins" in text
            names = [row.strip() for row in stage.rows if row.startswith("  ") and row[2] != " "][:4]
            assert names == ["/loud", "quiet", "/review [file]", "undo"]
            assert "only the model uses it" in text and "only you call it" in text
            assert "skill not used: ~/.agents/skills/broken/SKILL.md" in text and max(map(len, stage.rows)) <= 80
            await stage.type("/re")
            await stage.until(lambda: any("/review" in row for row in stage.rows[-8:]))
            assert any("[file] Review changes." in row for row in stage.rows[-8:])
            await stage.type("\x15")
            await send(stage, "/help", "/help review", "/help nothing", "/undo")
            assert "  /review                    [file] Review changes." in stage.rows
            assert "/review [file]" in stage.rows and not any(row.startswith("  /quiet") for row in stage.rows[20:])
            assert any("there is no workspace" in row for row in stage.rows)  # the chat's own /undo
            write_skill(own, "late", "Just written.")
            await send(stage, "/skills", "/late")
            assert said(stage)[0].startswith("/late\n\nFollow the skill late")

    chatting(case)


def test_the_prompt_names_them_where_a_tool_can_read_them(own: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    write_skill(work / ".agents" / "skills", "release", "Publish it.")
    theirs, mine = "- release: Publish it. (.agents/skills/release/SKILL.md)", f"({own.resolve()}/review/SKILL.md)"
    engine = write_script(tmp_path, *[DONE] * 6)

    async def case() -> None:
        async with ChatScreen(engine=engine, workspace=str(work), no_tools=None) as stage:
            await send(stage, "hi")
            assert theirs not in prompt_of(stage) and mine in prompt_of(stage) and "loud" not in prompt_of(stage)
            assert stage.talk.session.options.taints == {"private"}
            assert any("its skills are not used" in row for row in stage.rows)
            await send(stage, "/skills")
            assert "  the skills of work aren't read until you trust it: /tools trust" in stage.rows
            await send(stage, "/release now", "\x15/tools off repo_browser", "hi")
            assert "no command /release" in " ".join(stage.rows) and mine not in prompt_of(stage)
            await send(stage, "/tools on")
            TrustStore(paths.data_dir()).trust(work)
        async with ChatScreen(engine=engine, workspace=str(work), no_tools=None, resume=Resume(latest=True)) as stage:
            await send(stage, "/release now", "/skills", "/context")
            assert said(stage)[-1].endswith("ARGUMENTS: now") and f"{theirs}\n" in prompt_of(stage)
            before = prompt_of(stage)
            assert "Skills: 5; the prompt lists 4 of them" in " ".join(stage.rows)
            at = next(at for at, row in enumerate(stage.rows) if " skills  " in row)
            assert stage.rows[at + 1].strip() == "of at most 1,500 (/skills lists them)"
            await send(stage, "more")
            assert prompt_of(stage) == before  # so the stored cache of the prompt's beginning stays valid

    chatting(case)


def test_three_hundred_are_kept_within_the_prompts_share(home: Path, tmp_path: Path) -> None:
    for number in range(300):
        write_skill(
            home / ".agents" / "skills", f"skill-{number}", "Reads and writes reports, figures and tables. " * 3
        )
    work = tmp_path / "work"
    work.mkdir()
    engine = write_script(tmp_path, DONE)

    async def case() -> None:
        for context in (16_384, None):
            flags = {"workspace": str(work), "no_tools": None, "context": context}
            async with ChatScreen(engine=engine, **flags) as stage:
                await send(stage, "hi")
                use = stage.talk.use
                assert use is not None
                tokens = {part.name: part.tokens for part in use.parts}["skills"]
                most = min(MAX_TOKENS, use.total_tokens // 50)
                assert most * 0.6 < tokens <= most + 3  # the blank lines around it
                named = prompt_of(stage).count("/SKILL.md)")
                assert f"{300 - named} more skills have no room here" in prompt_of(stage)

    chatting(case)


def test_one_called_during_a_turn_waits_for_its_end(own: Path, tmp_path: Path) -> None:
    slow = f"<|channel|>analysis<|message|>{'on and on ' * 40}<|end|><|start|>assistant{DONE}"

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, slow, DONE, tokens_per_s=100)) as stage:
            await stage.type("hi\r")
            await stage.until(lambda: stage.talk.control is not None)
            await stage.type("/review this\r")
            assert [line.shown for line in stage.talk.outbox.queue] == ["/review this"]
            await stage.type("\x03")
            await stage.settle()
            assert stage.face.editor.text == "/review this"  # a call again, once it is sent
            await send(stage, "")
            assert said(stage)[-1].endswith("Look at this.")

    chatting(case)
