"""Jobs on repositories in which something is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from ossia.cli.eval.repo.parts import Job

_RUN = "Run the tests with: python3 run_tests.py"

_PAGES = '''\
"""Pages of a long list."""


def page(items, number, size):
    """The items of page `number`, which counts from 1."""
    start = (number - 1) * size
    return items[start:start + size]


def pages(items, size):
    """How many pages there are; the last one may be short."""
    return -(-len(items) // size)
'''
_PAGES_TEST = """\
from $pkg.pages import page, pages


def test_the_first_page():
    assert page(list(range(10)), 1, 4) == [0, 1, 2, 3]


def test_a_short_last_page_counts():
    assert pages(list(range(10)), 4) == 3
"""
_BAD_PAGES = _PAGES.replace("(number - 1) * size", "number * size").replace(
    "-(-len(items) // size)", "len(items) // size"
)

_IMPORTER = '''\
"""Orders of a $noun."""

from $pkg.customers import Customer


class Order:
    def __init__(self, customer, price):
        self.customer, self.price = customer, price

    def label(self):
        assert isinstance(self.customer, Customer)
        return f"{self.customer.name}: {self.price}"
'''
_CUSTOMERS = '''\
"""Customers."""

from $pkg.orders import Order


class Customer:
    def __init__(self, name):
        self.name, self.orders = name, []

    def order(self, price):
        self.orders.append(Order(self, price))
        return self.orders[-1]
'''
_CUSTOMERS_RIGHT = _CUSTOMERS.replace("from $pkg.orders import Order\n\n\n", "").replace(
    "    def order(self, price):\n", "    def order(self, price):\n        from $pkg.orders import Order\n\n"
)

_SLOW = '''\
"""Lists of each $noun."""


def unique(items):
    """The items (which are hashable), each once, in the order in which they came first."""
    kept = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept
'''
_FAST = _SLOW.replace(
    """    kept = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept
""",
    "    return list(dict.fromkeys(items))\n",
)

_SIDE = '''\
"""The price of a $noun."""

BASE = $n00


def price(weight, express=False):
    """In cents, by weight in kg."""
    cents = BASE + 10 * weight
'''.replace("$n00", "${n}00")
_OURS = """    if weight > 20:
        cents += 150  # heavy
"""
_THEIRS = """    if express:
        cents *= 2
"""
_CONFLICT = f"{_SIDE}<<<<<<< HEAD\n{_OURS}=======\n{_THEIRS}>>>>>>> express\n    return cents\n"
_MERGED = f"{_SIDE}{_OURS}{_THEIRS}    return cents\n"

_ERRORS = '''\
"""Reads the size of a $noun."""


def size(text):
    """`size("3x4")` is (3, 4). Raises ValueError, which names the text, for anything else."""
    try:
        width, height = text.split("x")
        return int(width), int(height)
    except ValueError:
        return None
'''
_ERRORS_RIGHT = _ERRORS.replace(
    "    except ValueError:\n        return None",
    '    except ValueError:\n        raise ValueError(f"{text!r} is no size, such as 3x4") from None',
)

_QUOTES = '''\
"""Reads lines of a table."""


def fields(line):
    """The fields of a line, separated by `;`. A field in double quotes may hold `;`, and `""` in it is one quote."""
    return line.split(";")
'''
_QUOTES_RIGHT = '''\
"""Reads lines of a table."""

import csv


def fields(line):
    """The fields of a line, separated by `;`. A field in double quotes may hold `;`, and `""` in it is one quote."""
    return next(csv.reader([line], delimiter=";"))
'''
_QUOTES_TEST = """\
from $pkg.table import fields


def test_plain_fields():
    assert fields("a;b;;c") == ["a", "b", "", "c"]


def test_a_quoted_field():
    assert fields('a;"b;c"') == ["a", "b;c"]
"""

MENDING: Mapping[str, Job] = {
    "pages": Job(
        f"A test of the pages fails. Mend the code, not the test. {_RUN}",
        {"$pkg/pages.py": _BAD_PAGES, "tests/test_pages.py": _PAGES_TEST},
        {"$pkg/pages.py": _PAGES, "tests/test_pages.py": _PAGES_TEST},
        "from $pkg.pages import page, pages\n\n\ndef test_pages():\n    items = list(range(11))\n"
        "    assert [page(items, n, 5) for n in (1, 2, 3)] == [items[:5], items[5:10], items[10:]]\n"
        "    assert [pages(range(n), 5) for n in (0, 1, 5, 6)] == [0, 1, 1, 2]\n",
    ),
    "import": Job(
        f"`import $pkg.customers` fails. Mend it so that each module can be imported first. {_RUN}",
        {"$pkg/orders.py": _IMPORTER, "$pkg/customers.py": _CUSTOMERS},
        {"$pkg/orders.py": _IMPORTER, "$pkg/customers.py": _CUSTOMERS_RIGHT},
        "import subprocess\nimport sys\nfrom pathlib import Path\n\nROOT = Path(__file__).resolve().parents[1]\n\n\n"
        "def test_either_comes_first():\n    for first in ('customers', 'orders'):\n"
        "        code = f'import sys; sys.path.insert(0, {str(ROOT)!r}); import $pkg.{first}; "
        'from $pkg.customers import Customer; print(Customer("Ida").order(5).label())\'\n'
        "        done = subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
        "        assert done.stdout == b'Ida: 5\\n', first\n",
    ),
    "slow": Job(
        "`unique` in $pkg/lists.py takes minutes for 100,000 items. Make it fast; what it returns must stay the same.",
        {"$pkg/lists.py": _SLOW},
        {"$pkg/lists.py": _FAST},
        "from $pkg.lists import unique\n\n\nclass Counted:\n    compared = 0\n\n    def __init__(self, value):\n"
        "        self.value = value\n\n    def __hash__(self):\n        return hash(self.value)\n\n"
        "    def __eq__(self, other):\n        Counted.compared += 1\n        return self.value == other.value\n\n\n"
        "def test_it_compares_little():\n    items = [Counted(n % 1500) for n in range(3000)]\n"
        "    assert [one.value for one in unique(items)] == list(range(1500))\n"
        "    assert Counted.compared < 60_000, Counted.compared\n\n\n"
        "def test_the_order_stays():\n    assert unique([3, 1, 3, 2, 1]) == [3, 1, 2]\n",
    ),
    "conflict": Job(
        "$pkg/prices.py holds a merge conflict. Resolve it so that both changes count: first what is added for heavy "
        "ones, then express.",
        {"$pkg/prices.py": _CONFLICT},
        {"$pkg/prices.py": _MERGED},
        "from pathlib import Path\n\nfrom $pkg import prices\n\n\ndef test_both_changes_count():\n"
        "    base = prices.BASE\n    assert base == 100 * $n\n    assert prices.price(1) == base + 10\n"
        "    assert prices.price(30) == base + 450\n    assert prices.price(1, True) == 2 * (base + 10)\n"
        "    assert prices.price(30, express=True) == 2 * (base + 450)\n\n\n"
        "def test_no_marks_are_left():\n    text = Path(prices.__file__).read_text()\n"
        "    assert not any(mark in text for mark in ('<<<<', '====', '>>>>'))\n",
    ),
    "errors": Job(
        "`size` in $pkg/sizes.py doesn't do what its docstring says about wrong texts. Mend it.",
        {"$pkg/sizes.py": _ERRORS},
        {"$pkg/sizes.py": _ERRORS_RIGHT},
        "from $pkg.sizes import size\n\n\ndef test_sizes():\n    assert size('3x4') == (3, 4)\n\n\n"
        "def test_wrong_ones_are_named():\n    for wrong in ('3', 'axb', '1x2x3', ''):\n        try:\n"
        "            found = size(wrong)\n        except ValueError as error:\n            assert wrong in str(error)\n"
        "        else:\n            raise AssertionError((wrong, found))\n",
    ),
    "quotes": Job(
        f"`fields` in $pkg/table.py doesn't do what its docstring says of quotes. Mend it. {_RUN}",
        {"$pkg/table.py": _QUOTES, "tests/test_table.py": _QUOTES_TEST},
        {"$pkg/table.py": _QUOTES_RIGHT, "tests/test_table.py": _QUOTES_TEST},
        "from $pkg.table import fields\n\n\ndef test_fields():\n    assert fields('a;b;;c') == ['a', 'b', '', 'c']\n"
        "    assert fields('\"a;b\";c') == ['a;b', 'c']\n"
        '    assert fields(\'"say ""hi""";2\') == [\'say "hi"\', \'2\']\n'
        "    assert fields('one') == ['one']\n",
    ),
}
