"""The wildcards of rules: for a command's words, for workspace paths, for URLs and other text.

`*` is any characters and `?` is one; brackets and braces stand for themselves (`app/[id]/page.tsx` is a path). A match
that *allows* is exact. A match that *denies* is generous: it ignores case and Unicode forms, and includes what
lies below.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

Match = Literal["yes", "maybe", "no"]

_STAR = re.compile(r"(\*+|\?)")
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<place>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_DOTS = re.compile(r"(?:^|/|%2f|%5c)(?:\.|%2e){1,2}(?:[/?#]|%2f|%5c|$)", re.IGNORECASE)
_UNCERTAIN = re.compile(r"[\s\\\x00-\x20\x7f-\xa0]")  # URL parsers disagree on them


@lru_cache(maxsize=1024)
def _compiled(pattern: str, any_char: str) -> re.Pattern[str]:
    parts = (
        any_char if part == "?" else f"{any_char}*" if part.startswith("*") else re.escape(part)
        for part in _STAR.split(pattern)
    )
    return re.compile("".join(parts), re.DOTALL)


def text_matches(pattern: str, text: str) -> bool:
    """True if the whole text (a word of a command, a search query) matches; `*` is any characters at all."""
    return _compiled(pattern, ".").fullmatch(text) is not None


def folded(text: str) -> str:
    """The text with case and Unicode forms folded, as some file systems and readers compare it."""
    return unicodedata.normalize("NFC", text).casefold()


# -- paths ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _path_pattern(pattern: str) -> re.Pattern[str]:
    """`**` alone between slashes is any number of folders, or none; at the end it is everything below."""
    segments = pattern.split("/")
    last = len(segments) - 1
    text = ""
    for index, segment in enumerate(segments):
        if segment == "**":
            text += ".+" if index == last else "(?:[^/]+/)*"
        else:
            text += _compiled(segment, "[^/]").pattern + ("" if index == last else "/")
    return re.compile(text, re.DOTALL)


def path_allowed(pattern: str, path: str) -> bool:
    """True if a pattern allows a path of the workspace (`"docs/a.md"`, with slashes, relative, without `..`).

    `docs/**` is everything below docs, `docs/*.md` what lies directly in it, `**/*.md` every Markdown file, `**` all.
    A path that isn't normalised is never allowed.
    """
    plain = path == posixpath.normpath(path) and not path.startswith(("/", "../")) and path != ".."
    if not plain or "\\" in path or not path.isprintable():
        return False
    return _path_pattern(_plain_pattern(pattern)).fullmatch(path) is not None


def path_denied(pattern: str, path: str, *, inside: bool = False) -> Match:
    """Match a pattern that denies against a path: "yes" also below a match, "maybe" for a folder that could hold one.

    `inside`: it is a folder whose content is looked at, so that wildcards may lead on from it: `**/*.pem` from `src`.
    """
    pattern = folded(_plain_pattern(pattern))
    forms = {folded(path), folded(posixpath.normpath(path.replace("\\", "/")))}
    deep = pattern if "/" in pattern else f"**/{pattern}"
    below = [_path_pattern(deep), _path_pattern(f"{deep}/**")]
    if deep.endswith("/**"):
        below.append(_path_pattern(deep.removesuffix("/**")))
    if any(expression.fullmatch(form) for form in forms for expression in below):
        return "yes"
    start = re.split(r"[*?]", pattern, maxsplit=1)[0]
    holds = any(form == "." or f"{form}/" == start[: len(form) + 1] for form in forms)
    return "maybe" if holds or (inside and any(_could_hold(deep, form) for form in forms)) else "no"


def _could_hold(pattern: str, folder: str) -> bool:
    """True if something below the folder could match: matched a segment at a time, a part of the pattern is left."""
    segments = pattern.split("/")
    reached = _behind_stars({0}, segments)
    for name in [] if folder == "." else folder.split("/"):
        ahead = {at + 1 for at in reached if at < len(segments) and _compiled(segments[at], "[^/]").fullmatch(name)}
        reached = _behind_stars(ahead | {at for at in reached if segments[at : at + 1] == ["**"]}, segments)
    return any(at < len(segments) for at in reached)


def _behind_stars(reached: set[int], segments: list[str]) -> set[int]:
    """The places in a pattern, and those behind `**` where it stands for no folder at all."""
    for at, segment in enumerate(segments):
        if segment == "**" and at in reached:
            reached.add(at + 1)
    return reached


def _plain_pattern(pattern: str) -> str:
    """`./docs/` as `docs/**`."""
    pattern = pattern.removeprefix("./")
    return f"{pattern}**" if pattern.endswith("/") else pattern


# -- URLs and other text -----------------------------------------------------------------------------------------------


def url_allowed(pattern: str, text: str) -> bool:
    """True if a pattern allows a URL (`https://docs.python.org/*`) or another text (a search query).

    A `*` in the host matches only within the host. An ambiguous URL (blanks, backslashes, `..`) is never allowed.
    """
    asked, allowed = _URL.fullmatch(text), _URL.fullmatch(pattern)
    if asked is None:
        return allowed is None and text_matches(pattern, text)
    if _UNCERTAIN.search(text) or _DOTS.search(asked["rest"]):
        return False
    if allowed is None:
        return pattern.strip("*") == ""
    return (
        asked["scheme"] == allowed["scheme"]
        and _compiled(allowed["place"], "[^/?#@]").fullmatch(asked["place"]) is not None
        and (text_matches(allowed["rest"], asked["rest"]) or allowed["place"] + allowed["rest"] == "*")
    )


def url_denied(pattern: str, text: str) -> Match:
    """Match a pattern that denies against a URL or another text. Scheme, port, user name and case don't matter.

    Nor does the spelling of host and path: `ｅvil。test`, `0x7f.1`, `/%61dmin`, `/x/../admin`. A pattern that is
    only a host (`https://a.test`, `a.test`) denies everything there.
    """
    url, denied = _URL.fullmatch(text), _URL.fullmatch(pattern)
    if url is None:
        return "yes" if text_matches(folded(pattern), folded(text)) else "no"
    host, rest = (_host(denied["place"]), denied["rest"]) if denied else (pattern, "")
    rest = rest or ("" if "/" in host or host.endswith("*") else "/*")
    wanted = [folded(f"{name}{rest}") for name in _hosts(host)]
    asked = [folded(f"{name}{way}") for name in _hosts(_host(url["place"])) for way in _ways(url["rest"])]
    return "yes" if any(text_matches(one, other) for one in wanted for other in asked) else "no"


def _host(place: str) -> str:
    return re.sub(r"\.?(?::\d*)?$", "", place.rpartition("@")[2])


def _hosts(host: str) -> set[str]:
    """A host as it is written, and as it is looked up."""
    if host.isascii() and not host[:1].isdigit():
        return {host}
    from ossia.tools.fetch.guard import Refused, as_address, normal_host

    try:
        name = normal_host(host)
    except Refused:
        return {host}
    return {host, name, as_address(name) or name}


def _ways(rest: str) -> set[str]:
    """The rest behind the host: as it is written, as it is sent, and as servers may read it."""
    sent = rest.partition("#")[0]
    path, mark, query = (sent if sent.startswith("/") else f"/{sent}").partition("?")
    plain = unquote(path)
    tidy = re.sub("/+", "/", posixpath.normpath(plain)) + ("/" if plain.endswith("/") and plain.strip("/") else "")
    return {rest or "/", *(f"{way}{mark}{query}" for way in (path, plain, tidy))}
