"""default < file < environment < flag; and what is said when a setting can't be used."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.cli import paths
from ossia.cli.commands.trust import describe
from ossia.cli.exits import ExitError
from ossia.cli.settings.config import ConfigError, Resolved, config_path, resolve
from ossia.cli.settings.config_file import set_value
from ossia.cli.settings.mcp import configured_servers
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.tools.approval.grants import Grants, Hosts
from ossia.tools.approval.trust import Offer, look
from ossia.tools.functions import McpConfigInvalid
from ossia.tools.mcp._stored import Pins

ConfigFile = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    """Writes a config file and returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def _settings(**flags: object) -> Settings:
    return resolve(flags, environ={}).settings


def test_without_anything_the_defaults_hold() -> None:
    resolved = resolve({}, environ={})
    assert resolved == Resolved(Settings(), {field.name: "default" for field in dataclasses.fields(Settings)})


def test_the_table_is_sound() -> None:
    for one in SETTINGS.values():
        assert one.default is None or one.kind.check(one.default) == one.default, one.name
        assert one.replaces in ("", *SETTINGS), one.name


def test_each_layer_wins_over_the_one_before(config: ConfigFile) -> None:
    path = config('effort = "low"\ntop_k = 5\nseed = 1\n')
    resolved = resolve(
        {"effort": "high", "top_k": None}, environ={"OSSIA_EFFORT": "medium", "OSSIA_TOP_K": "7"}, path=path
    )
    assert resolved.settings == Settings(effort="high", top_k=7, seed=1)
    assert resolved.origins["effort"] == "--effort"
    assert resolved.origins["top_k"] == "OSSIA_TOP_K"
    assert resolved.origins["seed"] == f"file {path}"
    assert resolved.origins["model"] == "default"


EVERY_KEY = """\
model = "gpt-oss-20b"
engine = "script:demo.json"
effort = "high"
instructions = "@rules.md"
tools = ["python", "browser"]
no_tools = true
workspace = "notes"
trust = true
allow = ["shell:git status*", "write_file:a,b"]
allow_network = ["uv sync", "npm ci*"]
allow_git = true
deny = ["shell:git push*"]
yes = true
strict_approvals = true
plan = true
dry_run = true
web = "exa"
web_key = "MY_EXA_KEY"
web_url = "http://localhost:8080"
allow_engine = ["gpu.example"]
allow_host = ["intranet:8080"]
proxy = "http://localhost:3128"
python = "/usr/bin/python3"
readable = ["/data", "/srv/sets"]
unconfined = true
show_thinking = true
verbose = true
quiet = true
plain = true
raw = true
json = true
jsonl = true
max_tokens = 100
think_tokens = "low=500, high=8000"
temperature = 0
top_p = 0.9
top_k = 40
min_p = 0.05
seed = 0
context = "max"
threads = 4
gpu_layers = 0
n_cpu_moe = 3
kv_type = "q8_0"
repack = "on"
guide = "off"
timeout = 2.5
think = "peek"
bell = 0
vi = true
prefill_ahead = "off"
titles = "question"
store = "always"
private = true
"""
EVERY_SETTING = Settings(
    model="gpt-oss-20b",
    engine="script:demo.json",
    effort="high",
    instructions="@rules.md",
    tools=("python", "browser"),
    no_tools=True,
    workspace="notes",
    trust=True,
    allow=("shell:git status*", "write_file:a,b"),
    allow_network=("uv sync", "npm ci*"),
    allow_git=True,
    deny=("shell:git push*",),
    yes=True,
    strict_approvals=True,
    plan=True,
    dry_run=True,
    web="exa",
    web_key="MY_EXA_KEY",
    web_url="http://localhost:8080",
    allow_engine=("gpu.example",),
    allow_host=("intranet:8080",),
    proxy="http://localhost:3128",
    python="/usr/bin/python3",
    readable=("/data", "/srv/sets"),
    unconfined=True,
    show_thinking=True,
    verbose=True,
    quiet=True,
    plain=True,
    raw=True,
    json=True,
    jsonl=True,
    max_tokens=100,
    think_tokens="low=500,high=8000",
    temperature=0.0,
    top_p=0.9,
    top_k=40,
    min_p=0.05,
    seed=0,
    context="max",
    threads=4,
    gpu_layers=0,
    n_cpu_moe=3,
    kv_type="q8_0",
    repack="on",
    guide="off",
    timeout=2.5,
    think="peek",
    bell=0.0,
    vi=True,
    prefill_ahead="off",
    titles="question",
    store="always",
    private=True,
)


def test_every_key_from_the_file(config: ConfigFile) -> None:
    assert set(tomllib.loads(EVERY_KEY)) == {field.name for field in dataclasses.fields(Settings)}
    assert resolve({}, environ={}, path=config(EVERY_KEY)).settings == EVERY_SETTING


def test_every_key_from_the_environment() -> None:
    def text(key: str, value: object) -> str:
        if isinstance(value, list):
            return ("," if key == "tools" else "\n").join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    environ = {f"OSSIA_{key.upper()}": text(key, value) for key, value in tomllib.loads(EVERY_KEY).items()}
    resolved = resolve({}, environ=environ)
    assert resolved.settings == EVERY_SETTING
    assert set(resolved.origins.values()) == set(environ)


def test_every_key_from_flags() -> None:
    resolved = resolve(tomllib.loads(EVERY_KEY), environ={})
    assert resolved.settings == EVERY_SETTING
    assert resolved.origins["gpu_layers"] == "--gpu-layers"


def test_a_flag_may_come_as_text() -> None:
    assert _settings(context="4096", tools=["python,browser", "python"]) == Settings(
        context=4096, tools=("python", "browser")
    )
    assert _settings(tools=["a.py:f, g,python", "wx:now,h", "b.py,c"]) == Settings(
        tools=("a.py:f", "a.py:g", "python", "wx:now", "wx:h", "b.py", "c")
    )


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_words_for_true(word: str) -> None:
    assert resolve({}, environ={"OSSIA_QUIET": word}).settings.quiet is True


@pytest.mark.parametrize("word", ["0", "False", "no", "off"])
def test_words_for_false(word: str, config: ConfigFile) -> None:
    assert resolve({}, environ={"OSSIA_QUIET": word}, path=config("quiet = true")).settings.quiet is False


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('effort = "hgih"', "effort: must be low, medium or high, not 'hgih'"),
        ("effort = 3", "effort: must be low, medium or high, not 3"),
        ("threads = true", "threads: must be a whole number of at least 1, not True"),
        ("threads = 0", "threads: must be a whole number of at least 1, not 0"),
        ("threads = 1.0", "threads: must be a whole number of at least 1, not 1.0"),
        ('threads = "4"', "threads: must be a whole number of at least 1, not '4'"),
        ('context = "all"', "context: must be a whole number of at least 1 or max, not 'all'"),
        ("temperature = -0.1", "temperature: must be a number from 0 to 2, not -0.1"),
        ("temperature = 70", "temperature: must be a number from 0 to 2, not 70"),
        ("temperature = inf", "temperature: must be a number from 0 to 2, not inf"),
        ("top_p = 0", "top_p: must be a number above 0, up to 1, not 0"),
        ("min_p = nan", "min_p: must be a number from 0 to 1, not nan"),
        ("timeout = 0", "timeout: must be a number of seconds above 0, not 0"),
        ('quiet = "yes"', "quiet: must be true or false, not 'yes'"),
        ('tools = "python"', "tools: must be a list of names, e.g. python, browser or FILE.py, not 'python'"),
        ("tools = []", "tools: must be a list of names, e.g. python, browser or FILE.py, not []"),
        ('tools = ["python,"]', "tools: must be a list of names, e.g. python, browser or FILE.py, not ['python,']"),
        ('model = ""', "model: must be non-empty text, not ''"),
        (
            'engine = "https://me:sesame@gpu.example"',
            "engine: must be llama, script:FILE, http://HOST:PORT or the NAME of an [engines.NAME]: no name or "
            "password may stand in an address; [engines.NAME] has key_env for a key",
        ),
        *(
            (
                f'engine = "{bare}"',
                "engine: must be llama, script:FILE, http://HOST:PORT or the NAME of an [engines.NAME]: put http:// "
                "before an address",
            )
            for bare in ("127.0.0.1:18761", "gpu.example:8000/v1", "[::1]:8080")
        ),
        ('engine = "script:"', "engine: must be llama, script:FILE, http://HOST:PORT or the NAME of an [engines.NAME]"),
        ("[model]\npath = 3", "model: must be non-empty text, not {'path': 3}"),
        ('efort = "high"', "'efort' is not a setting: did you mean 'effort'?"),
        ("gpu-layers = 3", "'gpu-layers' is not a setting: did you mean 'gpu_layers'?"),
        ("zzz = 3", "'zzz' is not a setting: `ossia config show` lists them all"),
    ],
)
def test_a_bad_line_of_the_file(line: str, complaint: str, config: ConfigFile) -> None:
    path = config(line)
    with pytest.raises(ConfigError, match=re.escape(f"{path}: {complaint}")):
        resolve({}, environ={}, path=path)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("OSSIA_EFFORT", "hgih", "OSSIA_EFFORT: must be low, medium or high, not 'hgih'"),
        ("OSSIA_SEED", "x", "OSSIA_SEED: must be a whole number of at least 0, not 'x'"),
        ("OSSIA_TOP_P", "nan", "OSSIA_TOP_P: must be a number above 0, up to 1, not 'nan'"),
        (
            "OSSIA_THINK_TOKENS",
            "low=500,low",
            "OSSIA_THINK_TOKENS: must be a whole number of at least 1, or one for each effort, e.g. low=500,high=8000, "
            "not 'low=500,low'",
        ),
        ("OSSIA_QUIET", "perhaps", "OSSIA_QUIET: must be true or false, not 'perhaps'"),
        ("OSSIA_TOOLS", ",", "OSSIA_TOOLS: must be a list of names, e.g. python, browser or FILE.py, not ','"),
    ],
)
def test_a_bad_variable(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(complaint)}$"):
        resolve({}, environ={name: text})


def test_a_bad_flag() -> None:
    with pytest.raises(ConfigError, match=r"^--max-tokens: must be a whole number of at least 1, not 0$"):
        _settings(max_tokens=0)
    with pytest.raises(ConfigError, match=r"^--context: must be a whole number of at least 1 or max, not 'much'$"):
        _settings(context="much")


def test_a_flag_that_is_no_setting_is_our_own_mistake() -> None:
    with pytest.raises(KeyError):
        _settings(colour="red")


def test_empty_variables_count_as_unset() -> None:
    resolved = resolve({}, environ={"OSSIA_EFFORT": "", "OSSIA_CONFIG": "", "OSSIA_NONSENSE": ""})
    assert (resolved.settings, resolved.warnings) == (Settings(), ())


def test_an_unknown_variable_is_a_warning_that_names_the_nearest() -> None:
    resolved = resolve({}, environ={"OSSIA_EFORT": "high", "EFFORT": "high"})
    assert resolved.settings == Settings()
    assert resolved.warnings == ("OSSIA_EFORT is not a setting: did you mean 'OSSIA_EFFORT'?",)


def test_tools_of_a_later_layer_beat_no_tools_of_an_earlier_one(config: ConfigFile) -> None:
    path = config("no_tools = true")
    resolved = resolve({"tools": ["python"]}, environ={}, path=path)
    assert resolved.settings == Settings(tools=("python",), no_tools=False)
    assert resolved.origins["no_tools"] == "--tools"
    assert _settings(tools=["python"], no_tools=True).no_tools is True


def test_quiet_and_verbose_of_a_later_layer_replace_each_other() -> None:
    assert resolve({"quiet": True}, environ={"OSSIA_VERBOSE": "1"}).settings == Settings(quiet=True)
    assert resolve({"verbose": True}, environ={"OSSIA_QUIET": "1"}).settings == Settings(verbose=True)


def test_a_home_in_a_path_is_expanded(config: ConfigFile, home: Path) -> None:
    path = config('model = "~/m.gguf"\ninstructions = "@~/rules.md"')
    settings = resolve({}, environ={}, path=path).settings
    assert settings == Settings(model=str(home / "m.gguf"), instructions=f"@{home / 'rules.md'}")


@given(st.dictionaries(st.sampled_from(list(tomllib.loads(EVERY_KEY))), st.text(max_size=9)))
def test_any_text_in_a_variable_is_a_setting_or_a_config_error(texts: dict[str, str]) -> None:
    try:
        resolve({}, environ={f"OSSIA_{key.upper()}": text for key, text in texts.items()})
    except ConfigError as error:
        assert "\n" not in str(error)


# -- the file itself --


def test_the_file_in_its_usual_place_is_read(home: Path) -> None:
    path = config_path({})
    assert home in path.parents
    path.parent.mkdir(parents=True)
    path.write_text("seed = 7\n")
    assert resolve({}, environ={}).settings == Settings(seed=7)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(ConfigError, match=re.escape(f"{missing}: there is no such config file")):
        resolve({}, environ={"OSSIA_CONFIG": str(missing)})


def test_a_named_file_replaces_the_usual_one(config: ConfigFile) -> None:
    path = config("seed = 7")
    resolved = resolve({}, environ={"OSSIA_CONFIG": str(path)})
    assert (resolved.settings, resolved.origins["seed"]) == (Settings(seed=7), f"file {path}")


def test_a_file_that_can_not_be_read(tmp_path: Path, config: ConfigFile) -> None:
    with pytest.raises(ConfigError, match="can't read the config file: Is a directory"):
        resolve({}, environ={}, path=tmp_path)
    path = config("seed = \n")
    with pytest.raises(ConfigError, match=r"not valid TOML: .*line 1"):
        resolve({}, environ={}, path=path)
    path.write_bytes(b'model = "\xff"')
    with pytest.raises(ConfigError, match="can't read the config file: it isn't UTF-8"):
        resolve({}, environ={}, path=path)


class TestApprovals:
    def test_both_forms(self, config: ConfigFile) -> None:
        path = config(
            '[approvals]\nshell = "ask"\n"write_file:docs/**" = "auto"\n[approvals.shell2]\n"git *" = "never"\n'
            '[approvals.browser]\nsearch = "never"\nopen."https://a.test/*" = "auto"\n'
            '[approvals.container]\nexec."make*" = "auto"\n[approvals.repo_browser]\nopen_file = "ask"\n'
        )
        assert resolve({}, environ={}, path=path).approvals == (
            ("shell", "ask"),
            ("write_file:docs/**", "auto"),
            ("shell2:git *", "never"),
            ("browser.search", "never"),
            ("browser.open:https://a.test/*", "auto"),
            ("container.exec:make*", "auto"),
            ("repo_browser.open_file", "ask"),
        )

    @pytest.mark.parametrize(
        "text", ['[approvals]\nshell = "yes"\n', "approvals = 3\n", "[approvals.shell]\nls = true\n"]
    )
    def test_anything_else_is_one_line(self, text: str, config: ConfigFile) -> None:
        with pytest.raises(ConfigError, match="approvals"):
            resolve({}, environ={}, path=config(text))


NESTED = [
    "tools = " + "[" * 100_000,
    "tools = " + "[" * 900 + "]" * 900,
    "approvals = " + "{a = " * 400 + "1" + "}" * 400,
    "approvals = {python = ['auto']}",
    ".".join(["approvals", *["a"] * 50_000]) + " = 1",
    "[" + ".".join(["mcpServers", *["a"] * 5_000]) + "]\nx = 1",
    "[engines.x]\nurl = " + "[" * 40 + "]" * 40,
]


@pytest.mark.parametrize("text", NESTED)
def test_nested_text_is_one_line(text: str, config: ConfigFile, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^\S+: (not valid TOML: nested too deep|approvals: python: must be one of)"):
        resolve({}, environ={}, path=config(text))
    (tmp_path / "work" / ".ossia").mkdir(parents=True)
    (tmp_path / "work" / ".ossia" / "config.toml").write_text(text)
    (tmp_path / "work" / ".ossia" / "mcp.json").write_text('{"mcpServers": ' + '{"a": ' * 900 + "1" + "}" * 901)
    offer = look(tmp_path / "work")
    servers = {name: data for name, data in offer.files.items() if name.endswith(".json")}
    with pytest.raises(ConfigError):
        resolve({}, environ={}, path=config(""), folder=offer)
    with pytest.raises(McpConfigInvalid, match="nested too deep"):
        configured_servers({"OSSIA_CONFIG": os.devnull}, folder=dataclasses.replace(offer, files=servers))
    assert all(len(line) < 1_200 for line in describe(offer))
    with pytest.raises(ConfigError, match=r"nested|must be"):
        set_value({"OSSIA_CONFIG": str(config("tools = " + "[" * 100_000))}, "effort", ["high"])


class TestOwner:
    """Files that grant something are the user's own, as ssh has it."""

    @pytest.mark.parametrize("name", ["config.toml", "mcp.json", "trust.json", "pins.json"])
    @pytest.mark.parametrize("theirs", ["writable", "another's"])
    def test_what_another_user_may_have_written_grants_nothing(self, name: str, theirs: str) -> None:
        data, usual = paths.data_dir(), paths.config_file().parent
        path = {"trust.json": data / name, "pins.json": data / name}.get(name, usual / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = {"version": 1, "folders": {}, "rules": {"": ["python"]}, "hosts": ["h"], "servers": {"x": {}}}
        path.write_text('effort = "low"' if name == "config.toml" else json.dumps(stored))
        path.chmod(0o644)

        def granted() -> object:
            match name:
                case "trust.json":
                    if problem := Grants(data).problem:
                        raise ExitError(problem)
                    return Grants(data).rules() and Hosts(data).holds("h")
                case "pins.json":
                    return Pins(path).of("x") == {}
                case "config.toml":
                    return resolve({}, environ={}).settings.effort == "low"
            return configured_servers({}) == ()

        assert granted()
        if theirs == "writable":
            path.chmod(0o666)
        elif os.geteuid():
            pytest.skip("only root can give a file away")
        else:
            os.chown(path, 65534, 65534)
        with pytest.raises(Exception, match=r"belongs to another user|other users can write it"):
            granted()
        if name == "trust.json":
            assert Grants(data).rules() == ()


class TestFolder:
    """The settings of a workspace that the user trusts."""

    def _folder(self, tmp_path: Path, text: str) -> Offer:
        (tmp_path / "work" / ".ossia").mkdir(parents=True)
        (tmp_path / "work" / ".ossia" / "config.toml").write_text(text)
        (tmp_path / "work" / ".ossia" / "own.py").touch()
        return look(tmp_path / "work")

    def test_its_rules_and_tools_count(self, config: ConfigFile, tmp_path: Path) -> None:
        folder = self._folder(tmp_path, 'tools = ["own.py:f"]\n[approvals]\n"shell:make*" = "auto"\n')
        path = config('[approvals]\nshell = "ask"\n')
        resolved = resolve({}, environ={}, path=path, folder=folder)
        assert resolved.settings.tools == (f"{folder.root / '.ossia' / 'own.py'}:f",)
        assert (resolved.approvals, resolved.folder_approvals) == ((("shell", "ask"),), (("shell:make*", "auto"),))
        assert resolve({}, environ={}, path=path).settings.tools is None

    @pytest.mark.parametrize(
        "line", ['model = "x"', "unconfined = true", 'readable = ["/data"]', 'allow = ["shell"]', "yes = true"]
    )
    def test_nothing_else_does(self, line: str, config: ConfigFile, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="can't be set by a workspace"):
            resolve({}, environ={}, path=config(""), folder=self._folder(tmp_path, line))

    @pytest.mark.parametrize("name", ["../own.py", "/etc/own.py", "~/own.py", "missing.py", "../own.py:f,g"])
    def test_its_functions_stand_where_trust_looked(self, name: str, config: ConfigFile, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="which you trusted"):
            resolve({}, environ={}, path=config(""), folder=self._folder(tmp_path, f'tools = ["{name}"]'))

    def test_a_folder_without_settings(self, config: ConfigFile, tmp_path: Path) -> None:
        assert resolve({}, environ={}, path=config(""), folder=look(tmp_path)).approvals == ()


def test_a_key_that_was_pasted_for_its_variable_is_not_repeated(config: ConfigFile) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"web_key": "sk-very-secret"}, environ={}, path=config(""))
    assert "secret" not in str(caught.value) and "environment variable" in str(caught.value)


def test_a_file_of_functions_stands_beside_the_config_that_names_it(config: ConfigFile) -> None:
    path = config('tools = ["own.py", "python"]\n')
    assert resolve({}, environ={}, path=path).settings.tools == (str(path.parent / "own.py"), "python")
    assert resolve({"tools": ["own.py"]}, environ={}, path=path).settings.tools == ("own.py",)
