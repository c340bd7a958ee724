"""The configuration of MCP servers: the tables `[mcpServers.NAME]` or those of an `mcp.json`, with the usual keys.

    [mcpServers.files]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"]

    [mcpServers.tickets]
    url = "https://tickets.example/mcp"
    headers = { Authorization = "Bearer ${TICKETS_TOKEN}" }

    [mcpServers.mail]
    url = "https://mail.example/mcp"
    client_id = "1234.apps.example"
    client_secret = "${MAIL_SECRET}"
    callback_port = 3118

A secret is given by its name only, as `${VAR}` (`${env:VAR}` and `${VAR:-default}` are understood, too): its value
comes from the environment when the server is started. What looks like a secret itself is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ossia.tools.functions import McpConfigInvalid

CONNECT_TIMEOUT_S = 30.0  # `npx` and `uvx` download a server the first time
URL_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 60.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.()-]*")
_SECRET_KEY = re.compile(
    r"(^|[_-])(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PAT|APIKEY|CREDENTIALS?|AUTH|AUTHORIZATION|COOKIE|BEARER)([_-]|$)"
    r"|(^|[_-])(API|ACCESS|PRIVATE|SECRET|AUTH|SUBSCRIPTION)[_-]?KEY([_-]|$)|[_-]KEY$|^KEY$|^(SIG|SIGNATURE)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}|hf_\w{20,}|npm_\w{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.)|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|^(Bearer|Basic|Token)\s+[\w+/=.~-]{8,}$",
    re.IGNORECASE,
)
_OAUTH_KEYS = {"clientId": "client_id", "clientSecret": "client_secret", "callbackPort": "callback_port"}
_HARMLESS = re.compile(r"|\d{1,6}|true|false|yes|no|on|off|none|null|[~./\\].*|[A-Za-z]:[\\/].*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """One server: a program to start (`command`) or an address (`url`); the other one is None.

    Texts may hold `${VAR}`: `expanded` fills in the values; `secrets` are the values that no message may show. `cwd`
    None: the user's home. `timeout_s` is for a call. `read_only`: which of its tools only look, by the server's
    own names; the user says so, whatever the server claims. `file` configures it; `where` is the file and the table,
    for messages: `"mcp.json: mcpServers.files"`.

    `client_id`, `client_secret`: ossia as the server's login service knows it, None if it registers itself there.
    `callback_port`: where the browser comes back to after logging in, None for any port.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    client_id: str | None = None
    client_secret: str | None = None
    callback_port: int | None = None
    timeout_s: float = CALL_TIMEOUT_S
    read_only: tuple[str, ...] = ()
    enabled: bool = True
    file: str = ""
    where: str = ""
    literal: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def target(self) -> str:
        """The command or the address, on one line, unexpanded: `"npx -y server"`, `"https://tickets.example/mcp"`."""
        target = self.url if self.url is not None else " ".join([self.command or "", *self.args])
        for secret in self.secrets if self.literal else ():
            target = target.replace(secret, "…")
        return target


def parse_servers(table: object, where: str) -> tuple[McpConfig, ...]:
    """The servers of a `mcpServers` table, by name; `where` is the file. Raises `McpConfigInvalid`.

    Other programs' own keys (`autoApprove`, `inputs`) are ignored.
    """
    if not isinstance(table, Mapping):
        raise McpConfigInvalid(f"{where}: mcpServers: must be a table of servers, not {_short(table)}")
    found = (parse_server(name, entry, f"{where}: mcpServers.{name}") for name, entry in table.items())
    return tuple(replace(server, file=where) for server in found)


def parse_server(name: str, entry: object, where: str, *, literal: bool = False) -> McpConfig:
    """One server. Raises `McpConfigInvalid` with the wrong key, also for a secret, unless it is `literal`."""
    if not _NAME.fullmatch(name):
        raise McpConfigInvalid(f"{where}: a name must be up to 40 letters, digits, - _ and ., not {name!r}")
    if not isinstance(entry, Mapping):
        raise McpConfigInvalid(f'{where}: must be a table with "command" or "url", not {_short(entry)}')
    oauth = entry.get("oauth")  # other programs' table of the same
    theirs = {_OAUTH_KEYS.get(key, key): value for key, value in oauth.items()} if isinstance(oauth, Mapping) else {}
    reader = _Reader({**{key: theirs[key] for key in _OAUTH_KEYS.values() if key in theirs}, **entry}, where)
    config = McpConfig(
        name,
        command=reader.text("command"),
        args=reader.texts("args"),
        env=reader.named("env"),
        cwd=reader.text("cwd"),
        url=reader.text("url"),
        headers=reader.named("headers"),
        client_id=reader.text("client_id"),
        client_secret=reader.text("client_secret"),
        callback_port=reader.port("callback_port"),
        timeout_s=reader.seconds("timeout_s", CALL_TIMEOUT_S),
        read_only=reader.texts("read_only"),
        enabled=reader.switch("enabled", True) and not reader.switch("disabled", False),
        where=where,
    )
    _check_kind(config, entry.get("type"))
    secrets = {value: key for key, name, value in _literals(config) if _is_secret(name, value)}
    if literal:
        return replace(config, literal=True, secrets=tuple(secrets))
    if secrets:  # whoever reads the file reads it
        advice = "put it into an environment variable and write ${VAR}"
        raise McpConfigInvalid(f"{where}.{next(iter(secrets.values()))}: this looks like a secret: {advice}")
    return config


def variables_in(config: McpConfig) -> frozenset[str]:
    """The names of the variables in it, as `expanded` fills them in."""
    fixed = (config.command, config.cwd, config.url, config.client_id, config.client_secret)
    texts = (*(text or "" for text in fixed), *config.args, *config.env.values(), *config.headers.values())
    return frozenset(match[1] for text in texts for match in _VARIABLE.finditer(text))


def expanded(config: McpConfig, environ: Mapping[str, str]) -> McpConfig:
    """The config with its variables' values filled in. Raises `McpConfigInvalid` for an unset one."""
    secrets: list[str] = []

    def fill(key: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            found = environ.get(match[1]) or match[2]
            if environ.get(match[1]) and not _is_passed_on(match[1]):  # ${HOME} is no secret
                secrets.append(environ[match[1]])
            if found is None:
                raise McpConfigInvalid(f"{config.where}.{key}: the environment variable {match[1]} is not set")
            return found

        return text if config.literal else _VARIABLE.sub(value, text)

    def fill_named(key: str, texts: Mapping[str, str]) -> dict[str, str]:
        return {name: fill(f"{key}.{name}", text) for name, text in texts.items()}

    fixed = {key: getattr(config, key) for key in ("command", "cwd", "url", "client_id", "client_secret")}
    single: dict[str, Any] = {key: fill(key, text) for key, text in fixed.items() if text is not None}
    filled = replace(
        config,
        args=tuple(fill("args", text) for text in config.args),
        env=fill_named("env", config.env),
        headers=fill_named("headers", config.headers),
        **single,
    )
    if filled.url is not None:
        _check_url(filled.url, config.where)
    for name, text in filled.headers.items():
        if not text.isascii() or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
            raise McpConfigInvalid(f"{config.where}.headers.{name}: a header must be printable ASCII")
    return replace(filled, secrets=(*config.secrets, *secrets))


def child_environment(config: McpConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """A server's whole environment: the places of programs and the home, the language, and the config's `env`."""
    kept = {name: value for name, value in environ.items() if _is_passed_on(name) and not value.startswith("()")}
    return {**kept, **config.env}


_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM", "TZ"),
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA"),
        *("PROGRAMDATA", "PROGRAMFILES", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "PROCESSOR_ARCHITECTURE"),
    }
)


def _is_passed_on(name: str) -> bool:
    return name.upper() in _PASSED_ON or name.startswith("LC_")


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    entry: Mapping[str, object]
    where: str

    def text(self, key: str) -> str | None:
        value = self.entry.get(key)
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        raise self._wrong(key, "a text", value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.entry.get(key, [])
        if isinstance(value, list | tuple) and all(isinstance(item, str) and "\0" not in item for item in value):
            return tuple(value)
        raise self._wrong(key, "a list of texts", value)

    def named(self, key: str) -> dict[str, str]:
        value = self.entry.get(key, {})
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a table of texts", value)
        for name, text in value.items():
            if not isinstance(text, str) or "\0" in text or not _ENV_NAME.fullmatch(name):
                raise self._wrong(f"{key}.{name}", "a name and a text", text)
        return dict(value)

    def switch(self, key: str, default: bool) -> bool:
        value = self.entry.get(key, default)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false", value)

    def seconds(self, key: str, default: float) -> float:
        value = self.entry.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86_400:
            return float(value)
        raise self._wrong(key, "a number of seconds above 0", value)

    def port(self, key: str) -> int | None:
        value = self.entry.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536):
            return value
        raise self._wrong(key, "a port, 1 to 65535", value)

    def _wrong(self, key: str, expected: str, value: object) -> McpConfigInvalid:
        return McpConfigInvalid(f"{self.where}.{key}: must be {expected}, not {_short(value)}")


def _check_kind(config: McpConfig, kind: object) -> None:
    if (config.command is None) == (config.url is None):
        both = ", not both" if config.command is not None else ""
        raise McpConfigInvalid(f'{config.where}: needs "command" or "url"{both}')
    if kind == "sse":
        raise McpConfigInvalid(f"{config.where}.type: sse is not supported: use the server's streamable HTTP address")
    fits = ("stdio",) if config.command is not None else ("http", "streamable-http", "streamableHttp")
    if kind is not None and kind not in fits:
        raise McpConfigInvalid(f"{config.where}.type: must be {' or '.join(map(repr, fits))}, not {_short(kind)}")
    if config.url is not None and not _VARIABLE.match(config.url):
        _check_url(config.url, config.where)


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"[\x00-\x20\x7f]", url)
    except ValueError:
        fine = False
    if not fine:
        raise McpConfigInvalid(f"{where}.url: must be http://… or https://…, not {_short(url)}")


# -- secrets ----------------------------------------------------------------------------------------------------------


def _is_secret(name: str, value: str) -> bool:
    """True for a value that looks like a secret, by itself or by the name beside it; not for one's variable."""
    bare = _VARIABLE.sub(lambda match: match[2] or "", value)
    by_name = bool(name and _SECRET_KEY.search(name) and not _HARMLESS.fullmatch(bare.strip()))
    if by_name and _VARIABLE.search(value) and re.fullmatch(r"\s*(Bearer|Basic|Token)?\s*", bare, re.IGNORECASE):
        return False
    return by_name or bool(_SECRET_VALUE.search(bare.strip()))


def _literals(config: McpConfig) -> Iterator[tuple[str, str, str]]:
    """Every possible place of a secret: the key, a name beside the value, the value."""
    for name, value in config.env.items():
        yield f"env.{name}", name, value
    for name, value in config.headers.items():
        yield f"headers.{name}", name, value
    name = ""
    for arg in config.args:  # --api-key VALUE, --api-key=VALUE, API_KEY=VALUE
        flag, equals, value = arg.partition("=")
        if equals:
            yield "args", flag.lstrip("-"), value
        else:
            yield "args", name, arg
        name = arg.lstrip("-") if arg.startswith("-") and not equals else ""
    yield "client_id", "", config.client_id or ""
    yield "client_secret", "secret", config.client_secret or ""
    if config.url is not None:
        parts = urlsplit(_VARIABLE.sub("x", config.url) if "[" in config.url else config.url)
        if parts.password or (parts.username and not _VARIABLE.search(parts.username)):
            yield "url", "password", parts.password or parts.username or ""
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            yield "url", name, value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
