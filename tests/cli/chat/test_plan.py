"""`/plan` and `/go`: nothing can be changed until the plan is agreed; the limit on thinking in the status line."""

from __future__ import annotations

import json
from pathlib import Path

from agent.prompt import GO, PLAN
from tests.support.command import write_script
from tests.support.screen import ChatScreen, chatting

ADD = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
PATCH = f"<|channel|>analysis to=repo_browser.apply_patch code<|message|>{json.dumps({'patch': ADD})}<|call|>"
FINAL = "<|channel|>final<|message|>1. Add new.txt.<|return|>"
DONE = "<|channel|>final<|message|>It is there.<|return|>"


def status(stage: ChatScreen) -> str:
    return next(row for row in reversed(stage.terminal.display) if row.strip())


def test_a_plan_is_made_then_carried_out(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = write_script(tmp_path, PATCH, FINAL, "<|channel|>final<|message|>Two.<|return|>", PATCH, DONE)

    async def case() -> None:
        flags = {"workspace": str(work), "trust": True, "no_tools": None, "allow": ("repo_browser",)}
        async with ChatScreen(engine=script, **flags) as stage:
            await stage.type("/go\r")
            await stage.settle()
            assert "no plan is being made" in "\n".join(stage.rows)
            await stage.type("/plan\r/go\r")
            await stage.settle()
            assert "there is no plan yet: say what to plan" in "\n".join(stage.rows)
            assert "plan: only looking" in status(stage) and not stage.talk.session.entries
            await stage.type("/plan Make new.txt.\r")
            await stage.settle()
            await stage.type("And what else?\r")
            await stage.settle()
            assert "plan: only looking" in status(stage)
            assert list(work.iterdir()) == []
            await stage.type("/go Gently.\r")
            await stage.settle()
            assert "plan: only looking" not in status(stage)
            assert (work / "new.txt").read_text() == "new\n"
            said = [message.text for message in stage.talk.session.messages if message.role == "user"]
            assert said == [f"Make new.txt.\n\n{PLAN}", "And what else?", f"{GO}\n\nGently."]

    chatting(case)


def test_plan_off_says_nothing_to_the_model(tmp_path: Path) -> None:
    script = write_script(tmp_path, DONE)

    async def case() -> None:
        async with ChatScreen(engine=script) as stage:
            await stage.type("/plan\r")
            await stage.settle()
            assert stage.talk.assembly is not None and stage.talk.assembly.tools.policy.read_only
            await stage.type("/plan off\r")
            await stage.settle()
            assert not stage.talk.assembly.tools.policy.read_only and not stage.talk.session.entries

    chatting(case)


def test_the_limit_on_thinking_stands_beside_the_effort(tmp_path: Path) -> None:
    script = write_script(tmp_path, DONE)

    async def case() -> None:
        async with ChatScreen(engine=script, think_tokens="high=8000") as stage:
            assert "medium ·" in status(stage)
            await stage.type("/effort high\r")
            await stage.settle()
            assert "high, at most 8.0k ·" in status(stage)
            await stage.type("/effort\r")
            await stage.settle()
            assert "effort high, at most 8,000 tokens of thinking (/set think_tokens)" in "\n".join(stage.rows)
            await stage.type("/set think_tokens off\r")
            await stage.settle()
            assert "high ·" in status(stage)

    chatting(case)
