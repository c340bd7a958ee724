"""Sessions as texts for others: what stands in each form, what doesn't, and what nobody can smuggle in."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ossia.agent.errors import SessionInvalid
from ossia.agent.sessions.json import import_session, session_from_json
from ossia.agent.sessions.session import Options, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.export.forms import FORMS, Form, default_form, export
from ossia.harmony.messages import Message, ResponseFormat, Sampled
from ossia.tools.browser.document import Document
from ossia.tools.spec import Attachment, ToolResult
from ossia.tools.work.result import formed
from tests.support.pages import opened

INFO = SessionInfo("k7m2v9xq", "How warm?", 0.0, 0.0, 1, "gpt-oss-20b", None, None, 61)


def _session() -> Session:
    session = Session(Options("high", "Be brief.", "2025-06-28"))
    session.model = "gpt-oss-20b"
    session.open_turn("How <warm>?")
    session.add(Message("assistant", ("Secret thought.",), channel="analysis", sampled=Sampled((1, 2), "end")))
    session.add(Message("assistant", ("I look.",), channel="commentary"))
    arguments = '{"id": "https://w.test/a?b=<c>"}'
    session.add(Message("assistant", (arguments,), recipient="browser.open", channel="analysis", content_type="code"))
    page = opened(Document("Weather *today*", "https://w.test/a?b=<c>", "It is warm.\nVery."))
    shown = Message("tool", (page.text,), name="browser.open", recipient="assistant", channel="analysis")
    session.add_result(shown, page)
    session.add(Message("assistant", ("plot('```')",), recipient="python", channel="analysis"))
    plot = ToolResult("````\n", error=True, attachments=(Attachment(Path("/home/me/plot.png"), "image/png"),))
    session.add_result(Message("tool", (plot.text,), name="python", recipient="assistant", channel="analysis"), plot)
    session.add(Message("assistant", ("# Warm\n\nIt is **warm**【0†L0】, says 【7†L1】.",), channel="final"))
    session.close_turn("answered")
    session.open_turn("Sure?")
    session.add(Message("assistant", ("Yes, it",), channel="final"), cut=True)
    session.close_turn("stopped")
    return session


MARKDOWN = """\
# How warm?

{facts}

## You

How <warm>?

## gpt-oss-20b

I look.

*Open https://w.test/a?b=\\<c\\>* (browser.open):

```json
{{
  "id": "https://w.test/a?b=<c>"
}}
```

*Result:*

```
{page}
```

*Run Python: plot('\\`\\`\\`')* (python):

````python
plot('```')
````

*Failed:*

`````
````
`````

*File: plot.png*

# Warm

It is **warm**[1], says [2].

- \\[1\\] Weather \\*today\\* — https://w.test/a?b=\\<c\\> (line 0)
- \\[2\\] unverified: no such page (cursor 7)

## You

Sure?

## gpt-oss-20b

Yes, it

*(cut here)*

*(stopped)*
"""


def test_markdown() -> None:
    session = _session()
    facts = export(session, INFO, "md").splitlines()[2]
    assert facts.startswith("k7m2v9xq · 1") and facts.endswith(" · gpt-oss-20b · 2 turns")
    page = session.entries[4].message.text.rstrip("\n")
    assert export(session, INFO, "md") == MARKDOWN.format(facts=facts, page=page)


@pytest.mark.parametrize("form", ["md", "html", "chat"])
def test_thinking_is_there_only_when_asked_for(form: Form) -> None:
    assert "Secret thought" not in export(_session(), INFO, form)
    assert "Secret thought" in export(_session(), INFO, form, True)


def test_thinking_and_what_was_replaced_in_markdown() -> None:
    session = Session()
    session.open_turn("One?")
    session.add(Message("assistant", ("First.\n\nSecond.",), channel="analysis"))
    taken = session.cut_back(0)
    session.open_turn("Two?")
    text = export(session, None, "md", True, replaced=taken)
    assert text == (
        "# Two?\n\n1 turn\n\n## You\n\nTwo?\n\n*(not finished)*\n\n# Replaced by a retry or an edit\n\n"
        "## You\n\nOne?\n\n## Assistant\n\n*Thinking:*\n\n> First.\n>\n> Second.\n"
    )
    assert "First." not in export(session, None, "md", replaced=taken)


def _worked() -> Session:
    """A command and a patch, and a call as it was stored before those tools."""
    session = Session(Options())
    session.open_turn("Test it.")
    texts = (
        (
            "container.exec",
            '{"command": ["bash", "-lc", "pytest -q"], "workdir": "a"}',
            formed("1 failed\n", Path("/w"), status=1),
        ),
        ("repo_browser.apply_patch", json.dumps({"patch": PATCH}), formed("Success.\nM a.py", Path("/w"))),
        ("functions.shell", '{"command": "ls"}', "a.py\n[exit status 2]"),
    )
    for name, arguments, result in texts:
        session.add(Message("assistant", (arguments,), recipient=name, channel="analysis", content_type="code"))
        told = Message("tool", (result,), name=name, recipient="assistant", channel="analysis")
        session.add_result(told, ToolResult(result, error=name != "repo_browser.apply_patch"))
    session.close_turn("answered")
    return session


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-1\n+2\n*** End Patch"


def test_work_in_a_folder_is_read_as_a_person_does() -> None:
    """The form that the model reads stays in the JSON alone, from which the chat goes on."""
    text = export(_worked(), None, "md")
    assert text.partition("## Assistant\n\n")[2] == (
        '*Run cd a && pytest -q* (container.exec):\n\n```bash\npytest -q\n# {"workdir": "a"}\n```\n\n'
        "*Failed:*\n\n```\n1 failed\n[exit status 1]\n```\n\n"
        f"*Edit a.py* (repo\\_browser.apply\\_patch):\n\n```diff\n{PATCH}\n```\n\n"
        "*Result:*\n\n```\nSuccess.\nM a.py\n```\n\n"
        '*shell(command="ls")* (functions.shell):\n\n```json\n{\n  "command": "ls"\n}\n```\n\n'
        "*Failed:*\n\n```\na.py\n[exit status 2]\n```\n"
    )
    page = _Elements(export(_worked(), None, "html")).text
    assert "1 failed\n[exit status 1]" in page and "returncode" not in page
    back, _ = session_from_json(json.loads(export(_worked(), None, "json")))
    assert back.entries == _worked().entries


class _Elements(HTMLParser):
    """What a browser would find: elements with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = """<script>alert(1)</script> <img src=x onerror=alert(1)> ![x](https://spy.test/x.png)
[go](javascript:alert(1)) <https://a.test/"onclick="x> [b](https://b.test/?a=1&b=%22 "title") </details></main>
&lt;b&gt; {title} <!-- --> \x1b]0;x\x07 &#x1b;]0;x &#x202e;gnp &#xe0041;
[c](data:text/html,x) [d](//d.test) <style>*{} </style> \u202egnp.exe <a href="https://e.test">e</a>
\\(\\text{</span><script>alert(2)</script>}\\) $\\hat{<}$ https://x.test/"onmouseover="y https://x.test/&lt;b"""


def _hostile() -> Session:
    session = Session()
    session.model = HOSTILE
    session.open_turn(HOSTILE)
    session.add(Message("assistant", (HOSTILE,), channel="analysis"))
    session.add(Message("assistant", (HOSTILE,), channel="commentary"))
    session.add(Message("assistant", (HOSTILE,), recipient=f"functions.{HOSTILE}", channel="commentary"))
    attached = (Attachment(Path(f"/x/{HOSTILE.replace('/', '')}"), "image/png"),)
    session.add_result(Message("tool", (HOSTILE,), name=HOSTILE), ToolResult(HOSTILE, attachments=attached))
    answer = f"{HOSTILE}\n\n|a|\n|-|\n|{HOSTILE}|\n\n```js\n{HOSTILE}\n```\n"
    session.add(Message("assistant", (answer,), channel="final"))
    session.add(Message("assistant", (HOSTILE,), channel=HOSTILE))
    session.close_turn("answered")
    return session


def test_html_holds_nothing_that_acts_or_loads() -> None:
    info = replace(INFO, title=HOSTILE, id=HOSTILE)
    page = export(_hostile(), info, "html", True)
    found = _Elements(page)
    assert found.names <= {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "h1", "p", "div", "details", "summary"),
        *("pre", "code", "span", "a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "em", "strong", "br"),
    }
    names = {name for name, _ in found.attributes}
    assert names <= {"lang", "charset", "name", "content", "http-equiv", "class", "dir", "href", "rel", "title"}
    assert {value for name, value in found.attributes if name == "href"} == {
        "https://a.test/%22onclick=%22x",
        "https://b.test/?a=1&b=%22",
        "https://spy.test/x.png",
        *("https://a.test/", "https://e.test", "https://x.test/", "https://x.test/&lt%3Bb"),
    }
    assert page.count("<style>") == 1 and not set("\x1b\u202e\U000e0041") & {*page}
    assert found.text.count("<script>alert(1)</script>") >= 9


def test_html_as_it_is_read() -> None:
    page = export(_session(), INFO, "html")
    assert "<title>How warm?</title>" in page and "prefers-color-scheme: dark" in page
    assert '<div class="user" dir="auto">How &lt;warm&gt;?</div>' in page
    assert "<h1>Warm</h1>\n<p>It is <strong>warm</strong>[1], says [2].</p>" in page
    assert (
        '<li><a href="https://w.test/a?b=%3Cc%3E" rel="noopener noreferrer">[1] Weather *today* — '
        "https://w.test/a?b=&lt;c&gt; (line 0)</a></li>" in page
    )
    call = 'plot(<span class="green">&#x27;```&#x27;</span>)'
    assert f"<summary>Run Python: plot(&#x27;```&#x27;) · python</summary>\n<pre><code>{call}</code></pre>" in page
    assert '<details class="failed"><summary>Failed</summary>' in page and "<p>File: plot.png</p>" in page
    assert "/home/me" not in page


ANSWER = """\
So $x^2$ and \\(\\sqrt{x}\\), but \\(\\what{x}\\), `$x^2$`, $5 and $6:

\\[
\\frac{a}{b}
\\]

See https://a.test/a_b_c?x=1&y=(2), (https://b.test/), <https://c.test/> or [d](https://d.test/).
Not https://bank.test@evil.test/, `https://e.test/`, nor xhttps://f.test/ or ftp://g.test/.

```python
def f():  # </code>
\treturn "a" < 1
```

```nosuch
<b>
```
"""


def test_html_has_coloured_code_links_and_formulas() -> None:
    session = Session()
    session.open_turn("Is https://q.test/x the one?")
    session.add(Message("assistant", (ANSWER,), channel="final"))
    session.close_turn("answered")
    page = export(session, None, "html")
    for shown in (
        '<div class="user" dir="auto">Is <a href="https://q.test/x" rel="noopener noreferrer">https://q.test/x</a> the',
        'So <span class="maths">x²</span> and <span class="maths">√x</span>, but ',
        'but <span class="maths">\\(\\what{x}\\)</span>, <code>$x^2$</code>, $5 and $6:</p>\n<p class="maths">a/b</p>',
        '<a href="https://a.test/a_b_c?x=1&amp;y=(2)" rel="noopener noreferrer">https://a.test/a_b_c?x=1&amp;y',
        '(<a href="https://b.test/" rel="noopener noreferrer">https://b.test/</a>), <a',
        '<pre><code><span class="magenta">def</span> <span class="bold">f</span>():  <span class="italic dim">',
        '# &lt;/code&gt;</span>\n\t<span class="magenta">return</span> <span class="green">&quot;a&quot;</span> &lt; ',
        "<pre><code>&lt;b&gt;\n</code></pre>",
    ):
        assert shown in page
    found = _Elements(page)
    assert {value for name, value in found.attributes if name == "href"} == {
        *("https://q.test/x", "https://a.test/a_b_c?x=1&y=(2)", "https://b.test/", "https://c.test/", "https://d.test/"),
    }
    assert page.count("prefers-color-scheme: dark") == 2 and "{{" not in page and "script" not in found.names


def test_a_long_row_of_brackets_behind_an_address_takes_no_time() -> None:
    session = Session()
    session.open_turn("https://a.test/" + ")" * 200_000)
    session.close_turn("answered")
    page = export(session, None, "html")
    assert "href" not in page and ")" * 200_000 in page


def test_long_code_is_coloured_as_one() -> None:
    session = Session()
    session.open_turn("Go.")
    text = "```python\n" + 'x = """\n' + "still text\n" * 60 + '"""\n```\n'
    session.add(Message("assistant", (text,), channel="final"))
    session.close_turn("answered")
    assert export(session, None, "html").count('<span class="green">still text</span>') == 60


def test_json_has_everything() -> None:
    session = _session()
    back, title = session_from_json(json.loads(export(session, INFO, "json")))
    assert (back.entries, back.options, back.ends) == (session.entries, session.options, session.ends)
    assert title == "How warm?"
    assert back.entries[1].message.sampled == Sampled((1, 2), "end")


def test_the_harmony_form_comes_back() -> None:
    session = Session(Options("high", "Be brief.", "2025-06-28"))
    for number, text in enumerate(("What is it?", "And now?", "Hm?")):
        session.open_turn(text)
        session.add(Message("assistant", ("Thinking.",), channel="analysis"))
        if number < 2:
            session.add(Message("assistant", (f"{number}",), channel="final"))
        session.close_turn("answered" if number < 2 else "stopped")
    back, title = import_session(export(session, INFO, "harmony", True), trusted=True)
    assert (back.entries, back.ends, title) == (session.entries, session.ends, "")
    assert back.options.instructions == "Be brief."
    assert back.options == session.options


def test_what_is_imported_counts_as_somebody_elses() -> None:
    for form in ("json", "harmony"):
        back, _ = import_session(export(_session(), INFO, form))
        assert "outside" in back.taint and back.said.strip() == ""
        assert all(message.sampled is None for message in back.messages)


def test_the_wheel_reads_what_is_exported() -> None:
    from openai_harmony import Conversation

    session = _session()
    session.options = replace(session.options, response_format=ResponseFormat("answer", {"type": "object"}))
    conversation = Conversation.from_json(export(session, INFO, "harmony"))
    assert [str(message.author.role.value) for message in conversation.messages][:3] == ["system", "developer", "user"]
    assert len(conversation.messages) == len(session.messages) + 2


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_encoded(form: Form) -> None:
    session = Session(Options(instructions="\udcfe"))
    session.open_turn("name \udcff\0.txt")
    text = export(session, None, form, True)
    assert text.endswith("\n") and text.encode()
    if form == "json":
        assert session_from_json(json.loads(text))[0].entries == session.entries
    elif form == "harmony":
        assert import_session(text, trusted=True)[0].messages == session.messages


def test_an_empty_session_can_be_exported() -> None:
    assert export(Session(), None, "md") == "# A conversation\n\n0 turns\n"
    assert "<main>" in export(Session(), None, "html")


def test_a_files_name_asks_for_a_form() -> None:
    names = {"a.md": "md", "b.HTML": "html", "c.htm": "html", "d.json": "json", "e": "md", "f.txt": "md"}
    assert {name: default_form(name) for name in names} == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("5", "not a conversation"),
        ("[]", "no message in it"),
        ('{"messages": []}', "no message in it"),
        ('{"entries": [], "version": 9}', "the session must be of version 1, not 9"),
        ('[{"role": "bot"}]', "not a conversation (read as harmony)"),
    ],
)
def test_what_is_no_conversation_is_one_line(text: str, complaint: str) -> None:
    with pytest.raises(SessionInvalid) as raised:
        import_session(text)
    assert complaint in str(raised.value) and "\n" not in str(raised.value)


def test_a_turn_without_an_answer_is_exported_as_that() -> None:
    session = Session(Options(date="2025-06-28"))
    session.open_turn("Well?")
    session.add(Message("assistant", ("Hm.",), channel="analysis"))
    session.add(Message("assistant", ("",), channel="final"))
    session.close_turn("silent")
    assert export(session, None, "md", thinking=True).endswith("> Hm.\n\n*(no answer came)*\n")
    assert '<p class="end">(no answer came)</p>' in export(session, None, "html")
    assert [item.text for item in Transcript.of(session).items] == ["Well?", "Hm.", "", "no answer came"]
    back, _ = import_session(export(session, None, "json"), trusted=True)
    assert (back.entries, back.ends) == (session.entries, ("silent",))
    back, _ = import_session(export(session, None, "harmony"))
    assert back.ends == ("silent",)


def test_turns_of_an_import_begin_with_what_the_user_says() -> None:
    data = [
        {"role": "developer", "content": "# Instructions\n\nB."},
        {"role": "assistant", "channel": "final", "content": "Welcome."},
        {"role": "user", "content": "x"},
        {"role": "user", "content": "y"},
        {"role": "assistant", "channel": "final", "content": "z"},
    ]
    session, _ = import_session(json.dumps(data), trusted=True)
    assert session.ends == ("answered", "stopped", "answered")
    assert [(entry.turn, entry.message.text) for entry in session.entries] == [
        (0, "Welcome."),
        (1, "x"),
        (2, "y"),
        (2, "z"),
    ]
