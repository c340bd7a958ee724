"""The verdict on a command: did it fail? Its exit status says so, or its output where a pipe hides the status."""

from __future__ import annotations

import posixpath
import re

from ossia.tools.approval.shell_words import commands_in
from ossia.tools.saying import one_line_of_script

_LAST_LINES = 60  # of the output; test runners and compilers sum up at the end
_WEAK_LINES = 12

_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_REDIRECTED = re.compile(r"\d?(?:&>>?|>>?\|?|<)\s*(?:&[\d-]|[^\s|;&()<>]+)")
_HIDES = re.compile(r"[|;&\n]")
"""The signs that put another command behind one, whose status is then the shell's."""
_ANSWERS = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "["})
"""Their status 1 is an answer: no match, a difference."""
_READERS = frozenset(
    {
        *(*_ANSWERS, "ag", "cat", "bat", "zcat", "less", "more", "head", "tail", "sed", "awk", "gawk", "sort", "uniq"),
        *("wc", "cut", "tr", "tee", "nl", "jq", "column", "fold", "strings", "echo", "printf", "cd", "ls", "find"),
        *("tree", "pwd", "true", "false", ":", "sleep", "export", "set", "unset", "source", ".", "ps", "dmesg"),
        *("journalctl", "history", "which", "type", "stat", "file", "du", "df", "env", "date", "mkdir", "touch"),
    }
)
"""Commands that show what stands elsewhere: a log's `FAILED` isn't theirs."""
_GIT_READERS = frozenset({"log", "show", "diff", "grep", "blame", "cat-file"})

_PASSED_LINE = re.compile(r"\s*(?:[✓✔√●]|ok\b|PASS\b|PASSED\b)|.*\b(?:PASSED|ok)\s*(?:\[ *\d+%\])?$")
_NUMBER = r"(?<![\w.])[1-9][\d,]*[ ]"
_FAILED = re.compile(
    rf"""
      {_NUMBER}(?:(?:unit |integration )?(?:tests?|examples?|suites?|specs?|checks?|scenarios?)[ ])?
      (?:failed|failing|failures?|errors?(?:[ ]generated)?)(?=\s*(?:$|[,;.()=|]|[ ](?:in|out[ ]of)[ ]))
    | ^FAILED(?:$|[ ](?:\(|\S+(?:::|\.py|[ ]-)))       # unittest, pytest
    | ^ERROR[ ]\S+(?:::\S+|\.py\b)                     # pytest
    | ^(?:\s*---[ ])?FAIL(?:$|[:\t ]\s*\S)             # go, jest, ctest
    | ^test[ ]result:[ ]FAILED                         # cargo
    | ^(?:>[ ]Task[ ]:|//)\S+\s+FAILED\b               # gradle, bazel
    | ^Failed!\s                                       # dotnet
    | ^error(?:\[E\d+\])?:[ ](?:could[ ]not[ ]compile|test[ ]failed|aborting[ ]due)
    | ^npm[ ](?:ERR!|error)                            # npm
    | ^g?make(?:\[\d+\])?:[ ]\*\*\*[ ]                 # make
    | ^(?:\#|ℹ)[ ]fail(?:ed)?:?\s+[1-9]                # node, tap
    | ^not[ ]ok[ ]\d+(?!.*\#[ ]*(?:TODO|SKIP))
    | \bFailures:[ ]?(?:[1-9]|\d+,[ ]Errors:[ ]?[1-9])     # junit
    | \bBUILD[ ]FAIL(?:ED|URE)\b | ^FAILURES!$ | ^Build[ ]FAILED
    | ^Found[ ][1-9][\d,]*[ ]errors?\b                 # mypy, ruff
    | \([1-9]\d*[ ]errors?,                            # eslint
    | ^The[ ]following[ ]tests[ ]FAILED
    | ^(?i:exit(?:ed)?|exit[ _-]?(?:code|status)|rc|status|return[ _-]?code)\s*[:=]?\s*[1-9]\d{{0,2}}$
    """,
    re.VERBOSE,
)
_PASSED = re.compile(
    r"^OK(?:$| \()|^test result: ok\.|^ok\s|(?<!\d)\b0 (?:failed|failing|failures|errors)\b|\b\d+ passed\b"
    r"|^(?i:exit(?:ed)?|exit[ _-]?(?:code|status)|rc|status|return[ _-]?code)\s*[:=]?\s*0$"
)
_DENIED = re.compile(
    r"[Pp]ermission denied\b|\b[Aa]ccess (?:is |was )?denied\b|Operation not permitted$|Read-only file system$"
)
_WEAK = re.compile(
    r"^Traceback \(most recent call last\):|^(?:fatal|error|Error|ERROR|panic|denied): (?!pip's dependency)"
    r"|^error\[E\d+\]: |^(?:Uncaught )?(?:\w+\.)*\w*(?:Error|Exception): |^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)$"
    r"|^thread '.*' .*panicked at|^Exception in thread|:\d+(?::\d+)?: (?:fatal )?error: |\berror TS\d+: "
    rf"|{_DENIED.pattern}"
    r"|: (?:command )?not found$|: No such file or directory$|^curl: \(\d+\) |Segmentation fault|^Killed$"
    r"|^Node\.js v\d+\."
)


def failed(command: str, status: int, output: str) -> bool:
    """True if a command failed, as a person would say.

    A status other than 0 is a failure, but for programs that answer with it. Where a pipe or a later command hides a
    status, the end of the output counts, unless all that ran only showed what stands elsewhere.

        failed("pytest -q", 1, "1 failed")                 # True
        failed("pytest -q | tail -3", 0, "1 failed")       # True
        failed("grep -c error log", 1, "0")                # False
        failed("cat build.log | tail", 0, "BUILD FAILED")  # False
    """
    line = _REDIRECTED.sub(" ", one_line_of_script(command))
    programs = [(posixpath.basename(words[0]), *words[1:2]) for words in commands_in(line)]
    if status:
        answers = status == 1 and programs and programs[-1][0] in _ANSWERS
        return not answers or (len(programs) > 1 and says_failed(output))
    return _hides(line) and (_denied(programs, output) if all(map(_reads, programs)) else says_failed(output))


def says_failed(output: str) -> bool:
    """True if the end of an output reports a failure; `0 failed` doesn't."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()[-_LAST_LINES:]]
    lines = [line for line in lines if not _PASSED_LINE.match(line)]
    if any(map(_FAILED.search, lines)):
        return True
    if any(map(_PASSED.search, output.rstrip().splitlines()[-_WEAK_LINES:])):
        return False
    return any(map(_WEAK.search, lines[-_WEAK_LINES:]))


def _denied(programs: list[tuple[str, ...]], output: str) -> bool:
    """True if one of the programs reports a denial at the end of the output."""
    own = tuple(f"{program[0]}: " for program in programs)
    return any(line.startswith(own) and _DENIED.search(line) for line in output.splitlines()[-_LAST_LINES:])


def _hides(command: str) -> bool:
    """True if the shell's status may be another command's."""
    return _HIDES.search(_QUOTED.sub("_", command).replace("&&", " ").rstrip(" &;")) is not None


def _reads(program: tuple[str, ...]) -> bool:
    name, *first = program
    return name in _READERS or (name == "git" and not _GIT_READERS.isdisjoint(first))
