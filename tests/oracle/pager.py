"""`python -m tests.oracle.pager [SEEDS]`: the pager's random tests with many seeds; the suite runs a few of each.

Whatever one does, the view is a window of all rows; and an answer that is painted in pieces, as it grows and
afterwards, has the rows of the chat.
"""

from __future__ import annotations

import sys

from tests.cli.chat.test_pager import (
    test_an_answer_looks_as_it_does_in_the_chat as same_rows,
)
from tests.cli.chat.test_pager import (
    test_the_view_is_always_a_window_of_all_rows as window,
)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for seed in range(1_000, 1_000 + seeds):
        for check in (window, same_rows):
            try:
                check(seed)
            except AssertionError as error:
                raise SystemExit(f"{check.__name__}({seed}): {error}") from error
    print(f"{seeds} seeds: all hold")


if __name__ == "__main__":
    main()
