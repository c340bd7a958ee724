"""A short day in one chat: fifty turns. `python -m tests.oracle.long_day` is the long one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.oracle.long_day import GROWTH_BYTES, day


def test_fifty_turns_leave_the_chat_as_small_as_it_was(tmp_path: Path) -> None:
    tenths = asyncio.run(day(50, tmp_path, tokens=20, frame_s=0))
    assert [tenth.turns for tenth in tenths] == list(range(5, 51, 5))
    assert tenths[-1].rss_bytes - tenths[0].rss_bytes < GROWTH_BYTES // 5
