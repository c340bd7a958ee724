# ruff: noqa: E501  (tables of phrasings: a phrasing a piece)
"""What stands around what users say, and between the arguments of a call.

Every fourth one is kept for evaluation (`wording.py`).
"""

from __future__ import annotations

BEFORE = (
    "Please ", "Hey, ", "OK, ", "Could you kindly ", "Now ", "Well, ", "So, ", "Right, ", "Hello! ", "Hi, ", "Quick one: ",
    "Sorry, ", "Once more: ", "Excuse me, ", "A question: ", "Let's see: ", "Hi there. ", "If you can: ", "Be so kind: ",
    "Next: ", "By the way, ", "Then: ", "Good morning. ", "One thing: ", "ok so ", "Hmm, ", "please ", "Alright, ",
)  # fmt: skip
"""What stands before a request and means nothing."""
AFTER = (
    " please", " for me", " now", " if you can", ", thanks", " again", " then", " today", ", will you", " right now",
    " once more", " quickly", ", ok", ", would you", " this time", ", if that is possible", " at once", ", thank you",
    ", dear étude", " as always", ", please", " when you can", ", friend", ", my dear", " asap",
)  # fmt: skip
WITH = (
    " with {0}", ": {0}", ", {0}", " using {0}", " with the {0}", " for {0}", " ({0})", " on {0}", " where {0}", "; {0}",
    " with these arguments: {0}", " by {0}", ", where {0}", " given {0}", " - {0}", ", with {0}", " and {0}", "\n{0}",
    " with arguments {0}", " setting {0}", " taking {0}", ", arguments: {0}", " and set {0}", " at {0}", " that has {0}",
    " giving it {0}", " and give it {0}", " where you set {0}", ", its arguments: {0}", " when {0}", " after {0}",
    " under {0}", " and put {0}", ", please use {0}", ". Arguments: {0}", ", I give {0}", " - use {0}", " as in {0}",
)  # fmt: skip
"""How a call's arguments follow its function."""
PAIR = (
    "{0} {1}", "{0}={1}", "{0}: {1}", "{0} set to {1}", "{0} = {1}", "{0} is {1}", "{0} as {1}", "the {0} {1}", "{0} to {1}",
    "{1} as {0}", "{0} being {1}", "{1} for {0}", "{0} of {1}", "{0} -> {1}", "{1} as the {0}", "{0} equal to {1}",
    "{1} for the {0}", "a {0} of {1}", "{0}:{1}", "{0} at {1}", "the {0} is {1}", "{0} equals {1}", "{0} must be {1}",
    "its {0} {1}", "{0} '{1}'", "{0} `{1}`", '{0} "{1}"', "{0} should be {1}", "{1} ({0})", "the {0} set to {1}",
    "{1} being the {0}", "the value {1} for {0}",
    "{0} is now {1}", "take {1} as {0}", "its {0} is {1}", "{0} as the value {1}", "the {0} as {1}", "{0} given as {1}",
    "our {0} is {1}", "{1} goes to {0}", "{0} with {1}", "my {0} {1}", "{0} on {1}", "{0} <- {1}", "use {1} for {0}",
    "{0} gets {1}", "its {0} at {1}", "the {0}: {1}",
)  # fmt: skip
"""How one argument is said."""
JOIN = (
    " and ", ", ", ", and ", "; ", " plus ", " & ", ", also ", " as well as ", " with ", "\n", ", then ", " then ",
    " and also ", " along with ", ", further ", " together with ", ", but ", ", well, ", " and then ", " besides ",
    ". And ", ", additionally ", ", plus ", ", next ",
)  # fmt: skip
