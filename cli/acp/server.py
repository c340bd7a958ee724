"""`ossia acp`: the methods of the protocol.

    initialize → session/new → session/prompt (updates, questions) → {"stopReason": "end_turn"}

The sessions' options are in `options.py`, slash commands in `commands.py`, stored sessions in `history.py`, the
client's MCP servers in `servers.py`.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ossia import __version__
from ossia.agent.worker import Worker, in_background
from ossia.cli.acp.errors import NOT_FOUND, error_of
from ossia.cli.acp.rpc import INVALID_PARAMS, Answer, Connection, Method, Params, Reply, RpcError, absolute, text
from ossia.cli.exits import ExitCode

if TYPE_CHECKING:
    from ossia.agent.conversation import OpenSession
    from ossia.cli.acp.models import Models
    from ossia.cli.acp.session import Session
    from ossia.cli.runtime.progress import Display

VERSION = 1
"""The protocol's."""
_LOGIN = "models-pull"
_HOME = "{} holds ossia's own data: no tools work in it; open the folder of a project"
_END_S, _CLOSE_S, _STORE_S = 0.5, 10.0, 5.0
_CAPABILITIES: Mapping[str, object] = {
    "loadSession": True,
    "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}


def serve(flags: Mapping[str, object]) -> None:
    """Serve the client at stdin and stdout until it closes one of them. Raises what `ossia run` does for bad flags.

    From then on both are the protocol's: what user's functions print goes to stderr, and they read nothing.
    """
    from ossia.cli.runtime.ending import end_now, look_to_the_end
    from ossia.cli.settings.config import resolve
    from ossia.cli.streams import give_stdout_to_others, say, stdout

    resolve(flags, environ=os.environ)  # a wrong flag is refused before the client says anything
    if sys.stdin.isatty():
        say("this is for an editor, which speaks to it by JSON; Ctrl-D ends it")
    give_stdout_to_others()
    stdin, out = sys.stdin.fileno(), stdout().fileno()
    with os.fdopen(os.dup(stdin), "rb") as read, os.fdopen(os.dup(out), "wb") as write:
        with Path(os.devnull).open("rb") as nowhere:
            os.dup2(nowhere.fileno(), stdin)
        os.dup2(2, out, inheritable=False)
        server, code = Server(read, write, flags), ExitCode.ANSWERED
        try:
            server.run()
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        server.end()
        look_to_the_end(say)
        end_now(code)  # whatever is still under way: a read of stdin, a load, a C call


class Server:
    """One client's sessions."""

    def __init__(self, read: BinaryIO, write: BinaryIO, flags: Mapping[str, object]) -> None:
        self.connection = Connection(read, write, error_of)
        self.sessions: dict[str, Session] = {}
        self._flags = dict(flags)
        self._made: tuple[Models, Display] | None = None
        self._opening = threading.Lock()
        self._jobs = Worker()  # opens and closes stored sessions, in the order of the requests

    def run(self) -> None:
        """Answer the client, on a thread, until it is gone."""
        methods: Mapping[str, Method] = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "session/new": self.new,
            "session/load": lambda params: self._jobs.submit(lambda: self.load(params, replay=True)),
            "session/resume": lambda params: self._jobs.submit(lambda: self.load(params, replay=False)),
            "session/list": self.list,
            "session/close": lambda params: self._jobs.submit(lambda: self.close(params)),
            "session/delete": lambda params: self._jobs.submit(lambda: self.delete(params)),
            "session/prompt": lambda params: self._session(params).prompt(params.get("prompt")),
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_config_option,
        }
        reading = threading.Thread(target=self.connection.serve, args=(methods, {"session/cancel": self.cancel}))
        reading.daemon = True
        reading.start()
        while not self.connection.ended.wait(0.2):  # Windows can't interrupt a longer wait
            pass

    def end(self) -> None:
        """Stop every turn, close the sessions, and write the last answers.

        A turn has half a second to stop. MCP servers that resist have some seconds more: they would go on without us.
        """
        sessions, give_up_at = list(self.sessions.values()), time.monotonic() + _END_S
        for session in sessions:
            threading.Thread(target=session.close, daemon=True).start()
        while waiting := [session for session in sessions if session.busy or not session.ended.is_set()]:
            if time.monotonic() > give_up_at and not any(session.leaving for session in waiting):
                break
            time.sleep(0.01)
        self.connection.finish(_END_S / 2)
        if self._made:
            self._made[0].store(_STORE_S)

    # -- the connection ------------------------------------------------------------------------------------------------

    def initialize(self, params: Params) -> Answer:
        """Agree on version 1, the only one here."""
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            raise RpcError(INVALID_PARAMS, "protocolVersion: expected a number")
        return {
            "protocolVersion": VERSION,
            "agentCapabilities": _CAPABILITIES,
            "agentInfo": {"name": "ossia", "title": "ossia", "version": __version__},
            "authMethods": [self._login()] if _may_log_in(params) else [],
        }

    def authenticate(self, params: Params) -> Answer:
        """A model needs no login, only to be there; the client runs the download in a terminal."""
        if params.get("methodId") != _LOGIN:
            raise RpcError(INVALID_PARAMS, f"methodId: expected {_LOGIN!r}")
        return {}

    def _login(self) -> Mapping[str, object]:
        """The download of the model as a login in the client's terminal: it adds `args` to those of `ossia acp`."""
        named = self._flags.get("model")
        model = named if named in ("gpt-oss-20b", "gpt-oss-120b") else "gpt-oss-20b"
        return {
            "type": "terminal",
            "id": _LOGIN,
            "name": f"Download {model}",
            "description": f"ossia models pull {model}",
            "args": ["models", "pull", model],
        }

    # -- sessions ------------------------------------------------------------------------------------------------------

    def new(self, params: Params) -> Answer:
        """Begin a session."""
        session = self._open(params, None)
        return Reply({"sessionId": session.id, **_state_of(session)}, session.begin)

    def load(self, params: Params, *, replay: bool) -> Answer:
        """Open a stored session, with its messages as updates (`session/load`) or without (`session/resume`)."""
        from ossia.cli.acp import history

        name = text(params, "sessionId")
        history.require(name, absolute(params, "cwd"))
        session = self._open(params, name)
        if replay:
            from ossia.cli.acp.replay import replay as send

            send(session)
        return Reply(_state_of(session), session.begin)

    def list(self, params: Params) -> Answer:
        """The stored sessions."""
        from ossia.cli.acp import history

        return history.listed(params)

    def close(self, params: Params) -> Answer:
        """Close a session; the stored one stays."""
        self._close(self._session(params).id)
        return {}

    def delete(self, params: Params) -> Answer:
        """Delete a stored session."""
        from ossia.cli.acp import history

        name = text(params, "sessionId")
        self._close(name, cache=False)
        history.delete(name, self._made[0].worker if self._made else None)
        return {}

    def cancel(self, params: Params) -> None:
        """Stop the prompt of a session, if there is one."""
        name = params.get("sessionId")
        if isinstance(name, str) and name in self.sessions:
            self.sessions[name].cancel()

    def set_mode(self, params: Params) -> Answer:
        """Change the mode: ask, plan, accept edits."""
        from ossia.cli.acp import options

        options.set_mode(self._session(params), text(params, "modeId"))
        return {}

    def set_config_option(self, params: Params) -> Answer:
        """Change the model, the effort or the mode."""
        from ossia.cli.acp import options

        session, name = self._session(params), text(params, "configId")

        def change() -> Answer:
            options.set_option(session, name, params.get("value"))
            return {"configOptions": options.options_of(session)}

        return in_background(change) if name == options.MODEL else change()

    def _session(self, params: Params) -> Session:
        name = text(params, "sessionId")
        if name not in self.sessions:
            raise RpcError(NOT_FOUND, f"no session {name!r} is open: session/new begins one, session/load opens one")
        return self.sessions[name]

    def _open(self, params: Params, stored: str | None) -> Session:
        """Open a new session, or a stored one, in the client's folder."""
        with self._opening:
            session = self._opened(params, stored)
            self.sessions[session.id] = session
            return session

    def _opened(self, params: Params, stored: str | None) -> Session:
        from ossia.cli import paths
        from ossia.cli.acp import history, servers
        from ossia.cli.acp.session import Session
        from ossia.cli.runtime.assembly import tools_spec
        from ossia.cli.settings.workspace import resolve_with_folder

        cwd = absolute(params, "cwd")
        home = paths.data_dir().resolve().is_relative_to(cwd.resolve())  # an editor without a project
        resolved, folder = resolve_with_folder({**self._flags, "workspace": None if home else str(cwd)})
        models, display = self._parts(resolved.settings)
        given = None if resolved.settings.no_tools else params.get("mcpServers")
        spec, notices = servers.with_servers(tools_spec(resolved, folder), given)
        if stored:
            self._close(stored)  # only now, when nothing else can be wrong
        opened: OpenSession = history.opened(resolved, folder, cwd, stored)
        problem = opened.problem or (_HOME.format(cwd) if home else "")
        notices = (*resolved.warnings, *filter(None, [problem]), *notices)
        for line in notices:
            display.warn(line)
        session = Session(
            opened.session_id or secrets.token_hex(4), cwd, opened, resolved, folder, spec,
            models=models, connection=self.connection, display=display,
        )  # fmt: skip
        session.notices = notices
        return session

    def _parts(self, settings: Any) -> tuple[Models, Display]:
        from ossia.cli.acp.models import Models
        from ossia.cli.runtime.progress import make_display

        if self._made is None:
            display = make_display(settings)
            self._made = Models(display), display
        return self._made

    def _close(self, name: str, *, cache: bool = True) -> None:
        """Close a session, and wait for the end of its turn: only then it can be opened again, or deleted."""
        if session := self.sessions.get(name):
            session.close(cache=cache)
            session.ended.wait(_CLOSE_S)
            if self.sessions.get(name) is session:
                del self.sessions[name]


def _may_log_in(params: Params) -> bool:
    match params:
        case {"clientCapabilities": {"auth": {"terminal": True}}}:
            return True
    return False


def _state_of(session: Session) -> dict[str, object]:
    """The modes and options of a new session."""
    from ossia.cli.acp import options

    return {"modes": options.modes_of(session), "configOptions": options.options_of(session)}
