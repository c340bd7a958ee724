"""Requests to a server of models: JSON out, JSON or server-sent events in; stoppable, bounded, and tried again."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import httpx2

from ossia.agent.control import Control
from ossia.agent.engine.remote._exchange import Exchange, Line, Refused, body_of, events_of
from ossia.agent.engine.remote.address import Address
from ossia.agent.errors import AddressUnusable, EngineFailed, ServerRefused

_FAULT_CHARS: Final = 200
_KEPT_S: Final = 2.0
"""Servers close a connection that idles for 5 s or more."""
_BUSY: Final = (429, 503)
_CONNECTS, _ASKS = 4, 8
"""Tries for a server that can't be reached, or that is busy: for about a minute, if it doesn't say when."""
_LONGEST_WAIT_S: Final = 60.0
_DIED: Final = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
_DONE: Final = "[DONE]"
_HINTS: Final = {
    "CERTIFICATE_VERIFY_FAILED": "set ca in [engines.NAME] to a file with its certificate, if you trust it",
    "WRONG_VERSION_NUMBER": "it speaks no TLS: give http://",
    "Connection refused": "is it running, and is the port right?",
    "peer closed connection": "ask again",
}

Json = Mapping[str, Any]


@dataclass(eq=False)
class Client:
    """Asks one server. Any thread may use it, each with a `Control` of its own.

    client = Client(parse_url("http://127.0.0.1:8080"))
    client.get("/props", control)["n_ctx"]
    for event in client.stream("/completion", {"prompt": [1, 2], "stream": True}, control): ...

    `notice` gets a line when a request is tried again (`team is busy (429): asking again in 2 s`), and when an answer
    that isn't a stream takes longer than `patience_s`. `back_off_s` is the first wait; it doubles each time, unless the
    server names one (`Retry-After`). `silence_s`: the longest pause in a stream; `answer_s`, `connect_s`: the longest
    waits for another answer and for a connection. A request isn't tried again once connecting has timed out or part of
    an answer has come. Redirects aren't followed: the key is for this host. This machine is reached without a proxy.

    Raises AddressUnusable if the file of certificates or the proxy can't be used. Requests raise EngineFailed, or
    ServerRefused if the server answers with an error. After a stop they raise EngineFailed; a stream just ends.
    """

    address: Address
    _: KW_ONLY
    notice: Callable[[str], None] = lambda line: None
    back_off_s: float = 0.5
    silence_s: float = 600.0
    answer_s: float = 30.0
    connect_s: float = 10.0
    patience_s: float = 5.0
    _shared: Line | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        address = self.address
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {address.key}"} if address.key else {})
        verify = _certificates(address)

        def connections(kept: int = 0) -> httpx2.Client:
            return httpx2.Client(
                headers=headers,
                verify=verify,
                trust_env=not address.is_local,
                follow_redirects=False,
                limits=httpx2.Limits(max_keepalive_connections=kept, keepalive_expiry=_KEPT_S),
            )

        try:
            # A connection for each request: then its socket is known, and none is reused that has died meanwhile.
            self._http = connections()
        except (ImportError, ValueError, httpx2.InvalidURL) as error:  # for SOCKS it wants a library; no URL at all
            raise AddressUnusable(
                f"{address.name}: the proxy that the environment names can't be used: name one by http:// in "
                f"HTTPS_PROXY, or {address.host} in NO_PROXY"
            ) from error
        self._kept = partial(connections, kept=1)

    @contextmanager
    def one_connection(self) -> Iterator[None]:
        """Within it, one connection does for all that isn't a stream: a far server takes long to connect to.

        A stop closes it; what is asked later gets one of its own.
        """
        self._shared = Line.of_its_own(self._kept())
        try:
            yield
        finally:
            self._shared = None

    def get(self, path: str, control: Control) -> Json:
        """The JSON object at a path: `get("/props", control)`."""
        return self._whole("GET", path, None, control)

    def post(self, path: str, body: Json, control: Control) -> Json:
        """The JSON object that answers `body`."""
        return self._whole("POST", path, body, control)

    def stream(
        self, path: str, body: Json, control: Control, *, retry: bool = True, done: Json | None = None
    ) -> Generator[Json, None, None]:
        """The data of the server-sent events that answer `body`, up to `[DONE]` (then `done`) or the end of the answer.

        Only its events tell whether the answer is complete. An `error` event is raised. Close the generator
        (`contextlib.closing`) to end the answer; a stop ends it within milliseconds. `retry=False`: one try only.
        """
        request = self._request("POST", path, body, self.silence_s)
        with closing(self._asked(request, control, events_of, None, retry)) as texts:
            for text in texts:
                if text.strip() == _DONE:
                    if done is not None:
                        yield done
                    return
                event = self._object(text)
                if isinstance(event.get("error"), Mapping):
                    raise ServerRefused(f"{self._name}: {self._fault(text)}", 200, event["error"])
                yield event

    def said(self, text: str, most: int = _FAULT_CHARS) -> str:
        """A server's text, for an error: on one line of at most so many characters, the key in it as `…`."""
        for key in {self.address.key, repr(self.address.key)[1:-1]} if self.address.key else ():
            text = text.replace(key, "…")
        return " ".join("".join(c if c.isprintable() else " " for c in text[: 8 * most]).split())[:most]

    def close(self) -> None:
        """Let go of the certificates and what else the library holds."""
        self._http.close()

    @property
    def _name(self) -> str:
        address = self.address
        return address.name if address.name == address.place else f"{address.name} ({address.place})"

    def _whole(self, method: str, path: str, body: Json | None, control: Control) -> Json:
        request = self._request(method, path, body, self.answer_s)
        late = threading.Timer(self.patience_s, self.notice, [f"{self._name} hasn't answered yet"])
        late.daemon = True
        late.start()
        try:
            with closing(self._asked(request, control, body_of, self.answer_s, retry=True)) as texts:
                text = next(texts, None)
        finally:
            late.cancel()
        if text is None:
            raise EngineFailed(f"{self._name}: stopped before it answered")
        return self._object(text)

    def _object(self, text: str) -> Json:
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict):
                return value
        said = self.said(text, 60)
        raise EngineFailed(f"{self._name}: expected a JSON object, not {said!r}: is it a server of models?")

    def _request(self, method: str, path: str, body: Json | None, silence_s: float) -> httpx2.Request:
        return self._http.build_request(
            method,
            self.address.url + path,
            content=None if body is None else json.dumps(body),
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout=httpx2.Timeout(silence_s, connect=self.connect_s, write=60.0),
        )

    def _asked(
        self,
        request: httpx2.Request,
        control: Control,
        read: Callable[[httpx2.Response], Iterator[str]],
        limit_s: float | None,
        retry: bool,
    ) -> Generator[str, None, None]:
        """Yield from `read(answer)`; `retry`: try again while the server can't be reached or is busy."""
        connects, asks = (_CONNECTS, _ASKS) if retry else (1, 1)
        tries, wait_s = 0, self.back_off_s
        shared = None if limit_s is None else self._shared
        while not control.stopped:
            tries += 1
            exchange = Exchange(shared or Line(self._http), request, read)
            begun = False
            try:
                with closing(exchange.items(control, limit_s)) as texts:
                    for text in texts:
                        begun = True
                        yield text
                return
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if tries >= connects or isinstance(error, httpx2.ConnectTimeout) or _is_certificate(error):
                    raise EngineFailed(f"{self._name} can't be reached: {self._reason(error)}") from error
                line, pause_s = f"{self._name} can't be reached", wait_s
            except Refused as refused:
                pause_s = _retry_after(refused.headers) or wait_s
                if refused.status not in _BUSY or tries >= asks or pause_s > _LONGEST_WAIT_S:
                    raise self._refusal(refused) from None
                line = f"{self._name} is busy ({refused.status})"
            except (httpx2.HTTPError, ValueError) as error:
                if shared and not begun and isinstance(error, _DIED):
                    shared = None  # the shared connection was closed meanwhile
                    continue
                said = "broke off in mid-answer" if begun else "gave no answer"
                raise EngineFailed(f"{self._name} {said}: {self._reason(error)}") from error
            self.notice(f"{line}: asking again in {pause_s:.2g} s")
            _pause(pause_s, control)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _refusal(self, refused: Refused) -> ServerRefused:
        error: Any = None
        with suppress(ValueError, RecursionError, AttributeError):
            error = json.loads(refused.text).get("error")
        return ServerRefused(self._refused(refused), refused.status, error if isinstance(error, Mapping) else {})

    def _refused(self, refused: Refused) -> str:
        said = f"{self._name} answered {refused.status}: {self._fault(refused.text)}"
        if refused.status in (301, 302, 303, 307, 308):
            there = self.said(refused.headers.get("location", "not named").partition("?")[0], 100)
            said = f"{self._name} answered {refused.status}, another address ({there})"
            return f"{said}, which isn't followed: give that one"
        if refused.status in (401, 403):
            variable = self.address.key_env
            return f"{said}: {f'see the key in {variable}' if variable else 'set key_env in [engines.NAME]'}"
        return said

    def _fault(self, text: str) -> str:
        """A server's account of a fault, on one line, with the key in it as `…`."""
        value: Any = None
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
        while isinstance(value, Mapping):  # {"error": {"message": …}}, {"error": …}, {"message": …}, {"detail": …}
            value = next((value[key] for key in ("error", "message", "detail") if value.get(key)), None)
        return self.said(str(value or text)) or "no message"

    def _reason(self, error: Exception) -> str:
        if isinstance(error, httpx2.ConnectTimeout) and self.address.url.startswith("https:"):
            return "it didn't answer in time: if it speaks no TLS, give http://"
        if isinstance(error, httpx2.TimeoutException):
            return "it didn't answer in time"
        text = self.said(str(error).partition(": bytearray(")[0])  # a broken header, which may hold part of the key
        text = text.partition("] ")[2] if text.startswith("[Errno") else text
        hints = [f": {hint}" for part, hint in _HINTS.items() if part in text]
        return (text or type(error).__name__) + "".join(hints)


def _retry_after(headers: httpx2.Headers) -> float | None:
    """The seconds that a server asks to wait; a date counts from the answer's own. None or 0: it doesn't say."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    with suppress(ValueError, TypeError, OverflowError):
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    return None


def _pause(seconds: float, control: Control) -> None:
    over = threading.Event()
    forget = control.on_stop(over.set)
    over.wait(seconds)
    forget()


def _certificates(address: Address) -> ssl.SSLContext:
    if address.ca is None:
        return httpx2.create_ssl_context(trust_env=not address.is_local)
    try:
        return ssl.create_default_context(cafile=address.ca)
    except (OSError, ssl.SSLError) as error:
        raise AddressUnusable(
            f"{address.name}: {address.ca} holds no certificates: {error.strerror or error}"
        ) from None


def _is_certificate(error: BaseException | None) -> bool:
    """True if it was the certificate: asking again is then of no use."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
