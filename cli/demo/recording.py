"""The recorded turn: a tiny project with a bug, the question about it, and the model's words."""

from __future__ import annotations

import json

FILES = {
    "docs/shipping.md": """\
# Shipping

- An order ships for €4.90.
- From €50 on, it ships free.
- A parcel over 20 kg costs €10 more.
""",
    "shipping.py": """\
def shipping(cents, kg=1):
    fee = 0 if cents > 50_00 else 4_90
    return fee + (10_00 if kg > 20 else 0)
""",
    "test_shipping.py": """\
import unittest

from shipping import shipping


class Shipping(unittest.TestCase):
    def test_small_orders_pay(self):
        self.assertEqual(shipping(12_00), 4_90)

    def test_heavy_parcels_pay_more(self):
        self.assertEqual(shipping(80_00, kg=25), 10_00)
""",
}
QUESTION = "A customer paid shipping for an order of exactly €50. Is that a bug? Fix it, with a test."
TESTS = "python3 -m unittest"

_PATCH = """\
*** Begin Patch
*** Update File: shipping.py
@@ def shipping(cents, kg=1):
-    fee = 0 if cents > 50_00 else 4_90
+    fee = 0 if cents >= 50_00 else 4_90
*** Update File: test_shipping.py
@@
     def test_heavy_parcels_pay_more(self):
         self.assertEqual(shipping(80_00, kg=25), 10_00)
+
+    def test_fifty_euros_ship_free(self):
+        self.assertEqual(shipping(50_00), 0)
*** End Patch"""
_ANSWER = """\
Yes, it was a bug. `docs/shipping.md` says “from €50 on”, but `shipping.py` compared with `>`, so exactly €50 paid:

| order | before | now |
|---|--:|--:|
| €49.99 | €4.90 | €4.90 |
| **€50.00** | **€4.90** | **free** |
| €50.01 | free | free |

The comparison is `>=` now, and a new test tries exactly €50."""


def steps(*, tested: bool) -> list[str]:
    """The model's completions, as Harmony text; `tested`: it runs the tests, else it says so."""
    look = "The user says that an order of exactly €50 paid for shipping. The rules may be in the docs: search them."
    read = "“From €50 on, it ships free”: so exactly €50 must be free. Now the code that decides it, and its tests."
    fix = (
        "`cents > 50_00` is strict: 5000 > 5000 is false, so exactly €50 pays €4.90. The docs say “from €50 on”, so it "
        "must be `>=`. The tests never try the boundary; I'll add one that does."
    )
    end = "All tests pass." if tested else "I did not run the tests."
    return [
        _call("repo_browser.search", look, path="docs", query="€50|free"),
        _call("repo_browser.open_file", read, path="shipping.py"),
        _call("repo_browser.open_file", "", path="test_shipping.py"),
        _call("repo_browser.apply_patch", fix, patch=_PATCH),
        *([_call("container.exec", "Run the tests.", command=TESTS.split())] if tested else []),
        f"<|channel|>final<|message|>{_ANSWER} {end}<|return|>",
    ]


def _call(name: str, thinking: str, **arguments: object) -> str:
    thought = f"<|channel|>analysis<|message|>{thinking}<|end|><|start|>assistant" if thinking else ""
    body = json.dumps(arguments, ensure_ascii=False)
    return f"{thought}<|channel|>commentary to={name} <|constrain|>json<|message|>{body}<|call|>"
