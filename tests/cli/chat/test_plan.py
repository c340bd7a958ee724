"""`/plan` and `/go`: nothing can be changed until the plan is agreed; the limit on thinking in the status line."""

from __future__ import annotations

import json
from pathlib import Path

from ossia.agent.prompt import GO, PLAN
from ossia.cli.runtime.session import Resume
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
            assert [row for row in stage.rows if "Make new.txt" in row] == ["› /plan Make new.txt."]
            assert list(work.iterdir()) == []
            await stage.type("/go Gently.\r")
            await stage.settle()
            assert "plan: only looking" not in status(stage)
            assert [row for row in stage.rows if row.startswith("› /go G")] == ["› /go Gently."]
            assert (work / "new.txt").read_text() == "new\n"
            said = [message.text for message in stage.talk.session.messages if message.role == "user"]
            assert said == [f"Make new.txt.\n\n{PLAN}", "And what else?", f"{GO}\n\nGently."]

    chatting(case)


def test_what_was_attached_goes_along_with_a_plan_and_with_go(tmp_path: Path) -> None:
    spec = tmp_path / "spec.md"
    spec.write_text("It must be green.\n")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, FINAL, DONE)) as stage:
            await stage.type("!echo forty-two\r")
            await stage.until(lambda: "will be sent with your next message" in "\n".join(stage.rows))
            await stage.type("/plan Look at that.\r")
            await stage.until(lambda: len(stage.talk.session.ends) == 1)
            await stage.settle()
            assert not stage.talk.outbox.attaching.pending
            await stage.type(f"/go Do as in @{spec} please.\r")
            await stage.until(lambda: len(stage.talk.session.ends) == 2)
            planned, going = (one.text for one in stage.talk.session.messages if one.role == "user")
            assert "forty-two" in planned and planned.endswith(PLAN)
            assert going.startswith(GO) and "It must be green." in going

    chatting(case)


def test_a_chat_that_goes_on_is_still_making_the_plan(tmp_path: Path) -> None:
    told = "a plan is being made: nothing can be changed until /go"
    planned: list[str] = []

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, FINAL, DONE)) as stage:
            await stage.type("/plan Make new.txt.\r")
            await stage.settle()
            assert stage.talk.opened.session_id is not None
            planned.append(stage.talk.opened.session_id)
            await stage.type("/plan off\r/new\r")
            await stage.settle()
            await stage.type(f"/resume {planned[0]}\r")
            await stage.settle()
            assert not stage.talk.settings.plan and told not in "\n".join(stage.rows)
            await stage.type("/plan\r")
            await stage.settle()

    async def later() -> None:
        resume = Resume(ref=planned[0])
        async with ChatScreen(engine=write_script(tmp_path, DONE), resume=resume) as stage:
            await stage.settle()
            assert "plan: only looking" in status(stage) and told in "\n".join(stage.rows)
            assert stage.talk.loaded is not None and stage.talk.loaded.tools.policy.read_only
            await stage.type("/new\r/plan off\r")
            await stage.settle()
            await stage.type(f"/resume {planned[0]}\r")
            await stage.settle()
            assert "plan: only looking" in status(stage) and stage.talk.loaded.tools.policy.read_only
            await stage.type("/go\r")
            await stage.settle()
            assert not stage.talk.session.options.planning

    chatting(case)
    chatting(later)


def test_plan_off_says_nothing_to_the_model(tmp_path: Path) -> None:
    script = write_script(tmp_path, DONE)

    async def case() -> None:
        async with ChatScreen(engine=script) as stage:
            await stage.type("/plan\r")
            await stage.settle()
            assert stage.talk.loaded is not None and stage.talk.loaded.tools.policy.read_only
            await stage.type("/plan off\r")
            await stage.settle()
            assert not stage.talk.loaded.tools.policy.read_only and not stage.talk.session.entries

    chatting(case)


def test_the_limit_on_thinking_stands_beside_the_effort(tmp_path: Path) -> None:
    script = write_script(tmp_path, DONE)

    async def case() -> None:
        async with ChatScreen(engine=script, think_tokens="high=8000") as stage:
            assert "medium ·" in status(stage)
            await stage.type("/effort high\r")
            await stage.settle()
            assert "high, thinks at most 8.0k ·" in status(stage)
            await stage.type("/effort\r")
            await stage.settle()
            assert "effort high, at most 8,000 tokens of thinking (/set think_tokens)" in "\n".join(stage.rows)
            await stage.type("/set think_tokens off\r")
            await stage.settle()
            assert "high ·" in status(stage)

    chatting(case)
