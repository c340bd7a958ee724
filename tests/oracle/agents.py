"""A thousand agents are opened and closed in one process: no thread, file, process or memory of theirs is left.

    python -m tests.oracle.agents [1000]

Of five kinds, in turn: over one shared model; with a model of their own; in a workspace; left in the middle of an
answer; and neither closed nor kept, so that only the garbage collector ends them. Prints what is there after each
tenth. Exit 1 if there is more at the end than in the middle: a file, a process, two threads, 20 Python objects for
each agent, or 50 kB of memory.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from ossia import Agent, Model, Text

_OBJECTS_EACH, _BYTES_EACH = 20, 50_000


@dataclass(frozen=True)
class Held:
    """The holdings of a process."""

    threads: int
    files: int
    processes: int
    objects: int
    bytes: int


def held() -> Held:
    """The present holdings, without garbage."""
    process = psutil.Process()
    gc.collect()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)  # else memory that is free counts, too, by chance
    files = process.num_fds() if hasattr(process, "num_fds") else process.num_handles()
    objects, memory = len(gc.get_objects()), process.memory_info().rss
    return Held(threading.active_count(), files, len(process.children()), objects, memory)


def weather(city: str) -> str:
    """The weather in a city now."""
    return "18 degrees"


def kinds(shared: Model, folder: Path) -> Sequence[Callable[[], None]]:
    """One agent of each kind, from its beginning to its end."""
    work = folder / "work"
    work.mkdir()

    def over_a_shared_model() -> None:
        with Agent(shared, tools=[weather], save=True, max_tokens=3) as agent:
            agent.ask("Hello")

    def with_its_own_model() -> None:
        with Agent("etude", data=folder, max_tokens=3) as agent:
            agent.ask("Hello")

    def in_a_workspace() -> None:
        with Agent(shared, workspace=work, max_tokens=3) as agent:
            agent.ask("Hello")

    def left_in_an_answer() -> None:
        with Agent(shared) as agent:
            for event in agent.stream("Hello"):
                if isinstance(event, Text):
                    break

    def forgotten() -> None:
        Agent("etude", data=folder, max_tokens=3).ask("Hello")

    return over_a_shared_model, with_its_own_model, in_a_workspace, left_in_an_answer, forgotten


def tenths(count: int) -> list[Held]:
    """The holdings after each tenth of so many agents."""
    with tempfile.TemporaryDirectory() as folder, Model("etude", data=folder) as shared:
        makers, found = kinds(shared, Path(folder)), []
        for number in range(count):
            makers[number % len(makers)]()
            if (number + 1) % (count // 10) == 0:
                found.append(held())
                print(number + 1, found[-1], flush=True)
    return found


def left_over(before: Held, after: Held, agents: int) -> dict[str, int]:
    """The excess after so many agents, beyond what chance explains. (One thread is OpenMP's, at times.)"""
    limits = Held(1, 0, 0, agents * _OBJECTS_EACH, agents * _BYTES_EACH)
    more = {name: getattr(after, name) - value for name, value in asdict(before).items()}
    return {name: value for name, value in more.items() if value > getattr(limits, name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    count = parser.parse_args().count
    found = tenths(count)
    left = left_over(found[4], found[-1], count // 2)
    print(f"left over: {left}" if left else "nothing is left")
    raise SystemExit(bool(left))


if __name__ == "__main__":
    main()
