"""Many clients of one `ossia serve` at once: each gets its own answer, and nobody waits for ever.

    python -m tests.oracle.serve [--requests 1000] [--clients 32] [--parallel 4] [--seed 34]

The étude is asked for something whose answer carries the mark of its request, a number that no other request under way
has: a year to be read from a sentence, a level for a function of the client's. One in ten streams is cut in the middle;
others are read slowly, sent by half, too long, without the token, or come from elsewhere. Prints what was answered, and
each fault: an answer with another's mark, a wait of more than two minutes, an error that shouldn't be. At the end the
server's memory, threads and descriptors are beside what they were after the first hundred; exit 1 if there was a fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.crowd import DEADLINE_S, crowd
from tests.support.serve import serving

MAX_GROWTH_BYTES = 32 << 20
"""Of the server's memory between the first hundred requests and the last: its store of answers may grow by this."""
_WARM_REQUESTS = 100
_SETTLED_S = 20


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds."""

    resident_bytes: int
    threads: int
    descriptors: int


def held(process: psutil.Process) -> Held:
    """What the process holds now."""
    return Held(process.memory_info().rss, process.num_threads(), process.num_fds())


def settled(process: psutil.Process, before: Held) -> Held:
    """What the process holds once it has at most as many threads and descriptors as before, or after 20 s."""
    until = time.monotonic() + _SETTLED_S
    while (now := held(process)) and time.monotonic() < until:
        if now.threads <= before.threads and now.descriptors <= before.descriptors:
            break
        time.sleep(0.2)
    return now


def main(arguments: list[str] | None = None) -> int:
    """Run the crowd and say what was seen."""
    parser = argparse.ArgumentParser(description="Many clients of one ossia serve at once.")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--seed", type=int, default=34)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as home:
        flags = ("--model", "etude", "--parallel", str(given.parallel), "--token", "a-token")
        with serving(*flags, home=Path(home)) as address:
            process = psutil.Process(address.pid)
            warm = min(_WARM_REQUESTS, given.requests // 4)
            seen = crowd(address, requests=warm, clients=given.clients, seed=given.seed + 1)
            time.sleep(1)
            before, began = held(process), time.monotonic()
            crowd(address, requests=given.requests - warm, clients=given.clients, seed=given.seed, seen=seen)
            took_s = time.monotonic() - began
            after = settled(process, before)
    for outcome, count in sorted(seen.outcomes.items()):
        print(f"{count:6}  {outcome}")
    print(f"{sum(seen.outcomes.values())} requests, {given.clients} clients, {given.parallel} lanes: {took_s:.0f} s")
    print(f"longest: {seen.longest_s:.1f} s; {seen.own} answers with their own mark, {seen.off} misread")
    print(f"before: {before}\nafter:  {after}")
    faults = list(seen.faults)
    if seen.longest_s > DEADLINE_S:
        faults.append(f"a client waited {seen.longest_s:.0f} s")
    if after.resident_bytes - before.resident_bytes > MAX_GROWTH_BYTES:
        faults.append(f"memory grew by {(after.resident_bytes - before.resident_bytes) >> 20} MiB")
    if after.threads > before.threads or after.descriptors > before.descriptors:
        faults.append("threads or descriptors stayed")
    for fault in faults:
        print(f"FAULT {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
