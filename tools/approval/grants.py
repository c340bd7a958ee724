"""The rules that an "always" stored, and the servers that may get prompts: all in the file of `trust.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ossia.tools.approval.rules import Rule, parse_rule
from ossia.tools.approval.trust import TrustFile, key_of


class Grants(TrustFile):
    """The rules stored with "always", for each workspace, and for runs without one."""

    def add(self, rules: Iterable[str], *, workspace: Path | None = None) -> None:
        """Store rules as `--allow` takes them. Raises ValueError for another text, TrustError if it can't be done."""
        texts = [str(parse_rule(text, "allow", origin="stored")) for text in rules]
        with self._change() as content:
            stored = content.rules.setdefault(key_of(workspace), [])
            stored += [text for text in texts if text not in stored]

    def rules(self, workspace: Path | None = None) -> tuple[Rule, ...]:
        """The stored rules for a workspace (None: for runs without one); empty where there is a `problem`."""
        return _parsed(self._readable().rules.get(key_of(workspace), []))

    def by_workspace(self) -> Mapping[Path | None, tuple[Rule, ...]]:
        """All stored rules. Raises TrustError."""
        return {Path(key) if key else None: _parsed(texts) for key, texts in sorted(self._read().rules.items())}

    def forget(self, rule: str) -> bool:
        """Delete a rule wherever it is stored. False: it wasn't stored. Raises TrustError."""
        with self._change() as content:
            had = any(rule in texts for texts in content.rules.values())
            rest = {key: [text for text in texts if text != rule] for key, texts in content.rules.items()}
            content.rules = {key: texts for key, texts in rest.items() if texts}
        return had


class Hosts(TrustFile):
    """The servers allowed to get prompts, as `https://gpu.example:8000`."""

    def holds(self, host: str) -> bool:
        """True for one of them; False for all if there is a `problem`."""
        return host in self._readable().hosts

    def listed(self) -> tuple[str, ...]:
        """All of them. Raises TrustError."""
        return tuple(sorted(self._read().hosts))

    def add(self, host: str) -> None:
        """Raises TrustError if it can't be stored."""
        with self._change() as content:
            content.hosts += [host] if host not in content.hosts else []

    def forget(self, host: str) -> bool:
        """Ask again before anything is sent there. False: it wasn't stored. Raises TrustError."""
        with self._change() as content:
            had = host in content.hosts
            content.hosts = [one for one in content.hosts if one != host]
        return had


def _parsed(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Rules as stored, parsed. Unknown ones are skipped; that is safe, stored rules only allow."""
    rules: list[Rule] = []
    for text in texts:
        with suppress(ValueError):
            rules.append(parse_rule(text, "allow", origin="stored"))
    return tuple(rules)
