"""git's index as a command left it, made safe: git believes an index, whatever it says.

An entry named `.git/hooks/post-checkout` would be written by the user's next `git checkout`. One with a changed file's
size and times would hide the change. So names are checked, entries that the command wrote are compared with their files
again, and whatever else an index may hold is left out.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import struct
from typing import NamedTuple

from ossia.tools.approval.autorun import plain
from ossia.tools.sandbox.git._files import GitRefused

_HEAD = struct.Struct(">4sII")
_SIZE_AT, _MODE_AT, _OID_AT = 36, 24, 40
_ASSUMED, _EXTENDED, _STAGES, _NAME_LENGTH = 0x8000, 0x4000, 0x3000, 0x0FFF
_SKIPPED = 0x4000
"""Of the second flags: the file isn't in the work tree."""
_MODES = (0o100644, 0o100755, 0o120000, 0o160000)
_SUBMODULE = 0o160000
_LOOK_CLOSER = re.compile(rb"(?:^|/)(?:/|\.|\Z)|git|[^ -~]", re.IGNORECASE)


class _Entry(NamedTuple):
    """An entry: where it begins, its name and stage, and its bytes without the name."""

    at: int
    name: bytes
    stage: int
    mode: int
    oid: bytes
    fixed: bytes


def cleaned(data: bytes, before: bytes | None, hash_name: str) -> tuple[bytes, set[str]]:
    """The index made safe, and the objects of entries that weren't in the one `before`. Raises `GitRefused`.

    `cleaned(index, None, "sha1")` → `(b"DIRC…", {"0bd15a…"})`
    """
    entries, end = _parsed(data, hash_name)
    known = {(entry.name, entry.stage): entry for entry in (_parsed(before, hash_name)[0] if before else ())}
    names = [entry.name for entry in entries if entry.stage == 0]
    made, new = bytearray(data[:end]), set()
    flags_at = _OID_AT + hashlib.new(hash_name).digest_size
    for entry in entries:
        was = known.get((entry.name, entry.stage))
        if was is not None and was.fixed == entry.fixed:
            continue
        _check(entry, names)
        struct.pack_into(">I", made, entry.at + _SIZE_AT, 0)  # git then looks at the file itself
        if (was is None or was.oid != entry.oid) and entry.mode != _SUBMODULE:
            new.add(entry.oid.hex())
        for offset, bit in ((flags_at, _ASSUMED), (flags_at + 2, _SKIPPED)):
            if _has(entry.fixed, offset, bit) and not (was and _has(was.fixed, offset, bit)):
                flags = struct.unpack_from(">H", made, entry.at + offset)[0]
                struct.pack_into(">H", made, entry.at + offset, flags & ~bit)
    return bytes(made) + hashlib.new(hash_name, made).digest(), new


def same_entries(one: bytes | None, other: bytes | None, hash_name: str) -> bool:
    """Do both hold the same files? git renews sizes and times now and then."""
    if one == other:
        return True
    lists = [[(entry.name, entry.stage, entry.mode, entry.oid) for entry in _parsed(data, hash_name)[0]] if data else []
             for data in (one, other)]  # fmt: skip
    return lists[0] == lists[1]


def _has(fixed: bytes, offset: int, bit: int) -> bool:
    return offset < len(fixed) and bool(struct.unpack_from(">H", fixed, offset)[0] & bit)


def _parsed(data: bytes, hash_name: str) -> tuple[list[_Entry], int]:
    """The entries and where they end."""
    oid_bytes = hashlib.new(hash_name).digest_size
    try:
        magic, version, count = _HEAD.unpack_from(data)
        if magic != b"DIRC" or version not in (2, 3, 4):
            raise GitRefused(f"the index is of an unknown kind (version {version})")
        entries: list[_Entry] = []
        at, name = _HEAD.size, b""
        for _ in range(count):
            entry, at = _entry(data, at, version, oid_bytes, name)
            if entries and (entries[-1].name, entries[-1].stage) >= (entry.name, entry.stage):
                raise GitRefused("the index isn't sorted")
            entries.append(entry)
            name = entry.name
    except (struct.error, IndexError, ValueError):
        raise GitRefused("the index is damaged") from None
    _check_extensions(data, at, oid_bytes)
    return entries, at


def _entry(data: bytes, at: int, version: int, oid_bytes: int, name_before: bytes) -> tuple[_Entry, int]:
    flags_at = at + _OID_AT + oid_bytes
    flags = struct.unpack_from(">H", data, flags_at)[0]
    name_at = flags_at + 2
    if flags & _EXTENDED:
        if version < 3 or struct.unpack_from(">H", data, name_at)[0] & ~0x6000:
            raise ValueError
        name_at += 2
    start = name_at
    name = b""
    if version == 4:
        stripped, start = _number(data, name_at)
        if stripped > len(name_before):
            raise ValueError
        name = name_before[: len(name_before) - stripped]
    end = data.index(b"\0", start)
    name += data[start:end]
    if flags & _NAME_LENGTH != min(len(name), _NAME_LENGTH):
        raise ValueError
    after = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    mode = struct.unpack_from(">I", data, at + _MODE_AT)[0]
    oid = data[at + _OID_AT : flags_at]
    return _Entry(at, name, (flags & _STAGES) >> 12, mode, oid, data[at:name_at]), after


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as git writes offsets, and where it ends."""
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1


def _check_extensions(data: bytes, at: int, oid_bytes: int) -> None:
    """Raises `GitRefused` if a part is needed to understand the entries: of a split or sparse index."""
    while at < len(data) - oid_bytes:
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        if not name[:1].isupper():
            raise GitRefused(f"the index is split or sparse ({name.decode('ascii', 'replace')})")
        at += 8 + size
    if at != len(data) - oid_bytes:
        raise GitRefused("the index is damaged")


def _check(entry: _Entry, names: list[bytes]) -> None:
    """Raises `GitRefused` for an entry that git itself wouldn't add beside those with the (sorted) names."""
    name = entry.name
    if entry.mode not in _MODES:
        raise GitRefused(f"the index has an entry of mode {entry.mode:o}")
    if not name or (_LOOK_CLOSER.search(name) and not _is_plain(name.decode("utf-8", "surrogateescape"))):
        raise GitRefused(f"the index names {name[:80].decode('utf-8', 'replace')!r}, which git wouldn't add")
    below = bisect.bisect_left(names, name + b"/")
    parents = [name[:at] for at, byte in enumerate(name) if byte == ord("/")]
    holds_one = below < len(names) and names[below].startswith(name + b"/")
    if entry.stage == 0 and (holds_one or any(_holds(names, parent) for parent in parents)):
        raise GitRefused("the index has a file below a file")


def _holds(names: list[bytes], name: bytes) -> bool:
    at = bisect.bisect_left(names, name)
    return at < len(names) and names[at] == name


def _is_plain(name: str) -> bool:
    for part in name.split("/"):
        folded = plain(part.partition(":")[0].partition("\\")[0])
        if part in ("", ".", "..") or folded in (".git", "git~1"):
            return False
    return True
