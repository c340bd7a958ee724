"""`ossia trust`: let a folder's own rules, servers and functions take effect, after looking at them."""

from __future__ import annotations

import posixpath
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ossia.cli import paths
from ossia.cli.commands import exit_error

if TYPE_CHECKING:
    from ossia.tools.approval.grants import Grants, Hosts
    from ossia.tools.approval.trust import Offer, TrustStore


UNTIL = "until its .ossia, AGENTS.md or skills change"
KIND_CHARS = len("functions ")  # of the first column in `describe`
_SKILLS = 20


def trust(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The folder. [default: this one]")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Trust it without asking.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the trusted folders, the stored rules and hosts.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting DIR, and forget its stored rules.")] = False,
    forget: Annotated[
        str | None, typer.Option(metavar="RULE", help="Forget a rule or a host, as --list shows it.")
    ] = None,
) -> None:
    """Trust a folder. Its rules, servers and functions take effect, and its files count as your own."""
    from ossia.tools.approval.grants import Grants, Hosts
    from ossia.tools.approval.trust import TrustError, TrustStore

    if str(folder) in ("list", "ls") and not Path(str(folder)).is_dir():  # as other groups name it
        folder, listed = None, True
    if sum((listed, revoke, forget is not None)) > 1 or (folder and (listed or forget is not None)):
        raise exit_error("trust: use only one of DIR, --list, --revoke DIR and --forget RULE")
    store, grants, hosts = TrustStore(paths.data_dir()), Grants(paths.data_dir()), Hosts(paths.data_dir())
    try:
        if listed:
            _list(store, grants, hosts)
        elif forget is not None:
            _say(f"forgotten: {_forget(forget, grants, hosts)}")
        elif revoke:
            if not store.revoke(folder or paths.here()):
                raise exit_error(f"--revoke: {folder or paths.here()} isn't trusted")
            _say(f"{(folder or paths.here()).resolve()} is no longer trusted")
        else:
            _trust(store, folder or paths.here(), yes=yes)
    except TrustError as error:
        raise exit_error(str(error), "FAILED") from error


def _forget(said: str, grants: Grants, hosts: Hosts) -> str:
    """Forget a rule, or the one host meant by `gpu.test` or `gpu.test:8000`; returns its stored form."""
    from ossia.cli.runtime.consent import means

    if grants.forget(said):
        return said
    meant = [host for host in hosts.listed() if means(said, host)]
    if not meant:
        raise exit_error(f"--forget: no such rule or host is stored: {said!r} (`ossia trust --list`)")
    if len(meant) > 1:
        raise exit_error(f"--forget: {said!r} may be {' or '.join(meant)}: name one of these")
    hosts.forget(meant[0])
    return meant[0]


def _trust(store: TrustStore, folder: Path, *, yes: bool) -> None:
    from ossia.cli.runtime.consent import confirmed
    from ossia.cli.runtime.progress import columns
    from ossia.cli.terminal.fold import hanging
    from ossia.cli.visible import seen_line
    from ossia.tools.approval.trust import TrustError, look

    if not paths.is_folder(folder):
        raise exit_error(f"{folder}: not a folder")
    if store.problem:
        raise TrustError(store.problem)
    root = folder.resolve()
    states = {"trusted": "trusted", "changed": "changed since it was trusted", "unknown": "not trusted"}
    state = states[store.state(root)]
    offer = look(root)  # what is shown is what is trusted
    for line, by in [(f"{root}: {state}", 2), *((f"  {line}", KIND_CHARS) for line in describe(offer))]:
        line = seen_line(line)
        print(*(hanging(line, columns(sys.stdout), by) if sys.stdout.isatty() else [line]), sep="\n")
    if not yes:
        if not sys.stdin.isatty():
            raise exit_error("trust: there is no terminal to ask on: --yes trusts without asking")
        if not confirmed("Trust it?"):
            print("ossia: nothing was changed", file=sys.stderr)
            return
    store.trust(root, offer)
    _say(f"{root} is trusted, {UNTIL}")


def _say(text: str) -> None:
    from ossia.cli.visible import seen_line

    print(seen_line(f"ossia: {text}"), file=sys.stderr)


def _list(store: TrustStore, grants: Any, hosts: Hosts) -> None:
    from ossia.cli.visible import seen_line

    lines = [f"{store.state(folder):<8} {folder}" for folder in store.folders()]
    lines += [f"declined {folder}   (the chat doesn't ask about it again)" for folder in store.declined()]
    for workspace, rules in grants.by_workspace().items():
        where = f"for {workspace}" if workspace else "for runs without a workspace"
        lines += [f"always   {rule}   ({where})" for rule in rules]
    lines += [f"host     {host}   (prompts may be sent there)" for host in hosts.listed()]
    if not lines:
        _say("no folder is trusted, and no rule is stored")
    for line in lines:
        print(seen_line(line))


def describe(offer: Offer) -> list[str]:
    """Lines for a person about all that would take effect in a folder. Raw outside text."""
    lines: list[str] = []
    others: list[str] = []
    skills: list[str] = []
    for name, content in offer.files.items():
        if name == "AGENTS.md":
            lines.append(f"notes     AGENTS.md ({len(content):,} bytes) is added to the instructions")
        elif name.endswith("/SKILL.md") and not name.startswith(".ossia/"):
            skills.append(name.rsplit("/", 2)[1])
        elif name == ".ossia/config.toml":
            lines += _of_config(content)
        elif name == ".ossia/mcp.json":
            lines += _of_json(content)
        elif name.endswith(".py"):
            lines.append(f"code      {_line(name)} ({len(content):,} bytes)")
        else:
            others.append(name)
    if skills:
        more = f" and {len(skills) - _SKILLS} more" if len(skills) > _SKILLS else ""
        lines.append(f"skills    {', '.join(skills[:_SKILLS])}{more}: instructions that the model may follow")
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        lines.append(f"others    {', '.join(map(_line, others[:5]))}{more}")
    lines.append(
        "files     count as written by you: 'session' and 'always' work here; writes and commands are still asked about"
    )
    return lines


def _of_config(content: bytes) -> list[str]:
    from ossia.cli.settings.config import FOLDER_CONFIG, ConfigError, flat_rules, parsed

    try:
        table = parsed(content, FOLDER_CONFIG)
    except ConfigError as error:
        return [f"settings  .ossia/config.toml can't be read: {_line(str(error).partition(': ')[2])}"]
    lines: list[str] = []
    for key, value in table.items():
        if key == "approvals" and isinstance(value, dict):
            rules = flat_rules(value).items()
            lines += [f"rule      {_line(rule)} = {_line(str(action))}" for rule, action in rules]
        elif key == "mcpServers":
            lines += _of_servers(value)
        elif key == "tools" and isinstance(value, list):
            lines += [f"functions {_line(str(name))}{_where(str(name))}" for name in value]
        else:
            lines.append(f"setting   {_line(key)} = {_line(str(value))}")
    return lines


def _where(name: str) -> str:
    """A remark on functions outside the shown files, whose changes go unnoticed."""
    from ossia.cli.settings.kinds import source_and_function

    source, _ = source_and_function(name)
    plain = posixpath.normpath(source)
    if not source.endswith(".py") or not (plain.startswith(("/", "../")) or plain == ".."):
        return ""
    return "  (NOT in .ossia/: it can change after you trusted it)"


def _of_json(content: bytes) -> list[str]:
    import json

    try:
        value = json.loads(content)
        return _of_servers(value["mcpServers"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return [f"servers   .ossia/mcp.json can't be read: {_line(str(error))}"]


def _of_servers(table: object) -> list[str]:
    lines: list[str] = []
    for name, server in table.items() if isinstance(table, dict) else ():
        keys = server if isinstance(server, dict) else {}
        words = [keys.get("command"), *(keys["args"] if isinstance(keys.get("args"), list) else ())]
        command = shlex.join(str(word) for word in words if word is not None)
        hidden = "command", "args", "read_only"  # the last one counts only in the user's own files
        more = [f"{key}={value}" for key, value in keys.items() if key not in hidden]
        lines.append(f"server    {_line(str(name))}: {_line(' '.join(filter(None, [command, *more])))}")
    return lines


def _line(text: str) -> str:
    """One line of at most 1,000 characters: no value can pass for another line."""
    from ossia.cli.visible import seen_line

    text = seen_line(text)
    return text if len(text) <= 1000 else f"{text[:1000]}… ({len(text)} characters)"
