"""The live line of `ossia batch`, and its last ones."""

from __future__ import annotations

from ossia.cli.batch.progress import Tally


def test_the_line_and_the_rates() -> None:
    now = [100.0]
    tally = Tally(30, clock=lambda: now[0])
    for number in range(1, 11):
        tally.before(number, code=6 * (number == 3), reason="end: tokens")
    tally.begin()
    assert tally.text() == "10 of 30 · 1 failed"
    for number in range(11, 19):
        tally.add(number, 2, tokens=25, reason="no")
    now[0] = 104.0
    assert tally.text() == "18 of 30 · 9 failed · 2.0/s · 50.0 tok/s · 6 s left"
    assert tally.failures == "9 of 18 failed: lines 3, 11, 12, 13, 14 and 4 more; line 3: end: tokens"
    tally.total, now[0] = None, 160.0
    assert tally.text() == "18 answered · 9 failed · 8.0/min · 3.3 tok/s"
    assert tally.whole("etude") == "etude · 18 questions · 8.0/min · 3.3 tok/s"


def test_one_failure() -> None:
    tally = Tally(1)
    assert tally.failures == ""
    tally.add(7, 2, tokens=0, reason="no")
    assert tally.failures == "1 of 1 failed: line 7: no"
    tally.add(3, 2, tokens=0, reason="never")  # another lane was slower
    assert tally.failures == "2 of 2 failed: lines 3 and 7; line 3: never"
