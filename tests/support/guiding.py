"""Whether a guide lets a text through, id by id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ossia.agent.engine.guiding import AllBut, Choice, Guide, OneOf


def may_come(choice: Choice, token: int) -> bool:
    """Is this id one of those?"""
    if choice is None:
        return True
    if isinstance(choice, OneOf):
        return token in choice.ids
    if isinstance(choice, AllBut):
        return token not in choice.known
    return bool(choice.holds(np.array([token]))[0])


def refused_at(guide: Guide, ids: Sequence[int]) -> int | None:
    """The place of the first id that the guide doesn't let come; None: all of them can."""
    place = 0
    while place < len(ids):
        if not may_come(guide.next(), ids[place]):
            return place
        for forced in guide.take(ids[place]):
            place += 1
            if place < len(ids) and ids[place] != forced:
                return place
        place += 1
    return None


def follow(guide: Guide, ids: Sequence[int]) -> list[int]:
    """Take ids that can come, up to their end; returns the places of those that were forced."""
    places: list[int] = []
    for place, token in enumerate(ids):
        if places and places[-1] >= place:
            continue
        guide.next()
        places += range(place + 1, place + 1 + len(guide.take(token)))
    return places
