# ruff: noqa: E501  (tables of phrasings: a phrasing a piece)
"""What the étude can't do, in as many words as can be made up: it is to say so, and to call nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tests.etude.words.values import Values

# {p}: a few words, {w}: a word, {n}: a number, {m}: a name, {c}: a city
FRAMES = (
    "[Write|Compose|Draft|Make up|Create|Generate|Invent|Give me] [a|me a|us a|a short|a long|a funny|a sad|one] "
    "[poem|story|letter|song|email|speech|essay|haiku|limerick|rhyme|joke|riddle|tale|slogan|tweet|review|script] "
    "[about|for|on|with|to|of|in the style of] {p}[.||!|, please.]",
    "[Why|How|When|Where|Since when|How come] [is|are|was|were|did|does|do|can|should|would|has|have|must] {p}[?||??]",
    "[Who|What|Which man|Which woman|What country] [invented|discovered|wrote|painted|built|won|killed|founded|made|said|"
    "composed|directed|caused|ruled|designed|sang] {p}[?|]",
    "[Explain|Describe|Define|Summarise|Discuss|Analyse|Compare|Review|Criticise|Prove|Outline|Teach me|Clarify|Interpret] "
    "{p}[.|| to me.| in simple words.| step by step.| to a child.| in {n} words.| like I'm five]",
    "[What|Who] [is|are|was|were] the [capital|population|president|meaning|height|age|colour|price|history|best {w}|"
    "biggest {w}|difference|purpose|cause|king|author|name|size|weight|speed|currency|language|father|longest {w}] "
    "of {p}[?|]",
    "How [many|much|old|far|tall|long|deep|big|fast|often|high|heavy|hot|rich|strong] [is|are|was|do|does|did|can] {p}[?|]",
    "How many {w} [are there|do I need|fit|live|are|can one put] in {p}[?|]", "What [is|are|was|were] {p}[?||??]",
    "[Is|Are|Was|Does|Do|Did|Can|Could|Will|Should|Would|Must|Has|May] {p} [better|worse|bigger|good|true|real|safe|dangerous|"
    "faster|healthy|important|legal|possible|dead|alive|worth it]"
    "[?|| than {w}?]",
    "[Translate|How do I say|What is|How would one say] {p} [to|into|in] [French|German|Spanish|Italian|English|Latin|Chinese|"
    "Japanese|Russian|Dutch|Greek|Turkish][.|?|]",
    "Say {p} in [French|German|Spanish|Italian|Latin|Chinese|Japanese|Russian][.|]",
    "[Fix|Debug|Refactor|Optimise|Write|Generate|Explain|Review|Improve|Port] [this code|a function|a script|some Python|a regex|"
    "a query|a class|a test|a program|a loop|an algorithm|a macro] [that|which|to|for|in|with] {p}[.||?]",
    "[Give me|I need|Do you have|Share|Offer] [advice|tips|ideas|a recipe|a list|three reasons|five facts|an example|a summary|"
    "a plan|help|your opinion|a hint|two names|{n} ideas] [for|about|of|on|with] {p}[.||?]",
    "I [feel|am feeling|think|would like|have|lost|like|hate|love|miss|saw|wonder about|can't find|broke|forgot|believe] {p}"
    "[.|, what should I do?|. Help!||. Any ideas?]",
    "Tell me [a joke|a story|a riddle|something|a fact|more|the truth|a secret|everything|a tale] about {p}[.||!]",
    "[Recommend|Suggest|Find me|Choose|Pick|Plan|Book|Order|Sell|Play|Draw|Sing|Guess|Imagine|Pretend|Solve|Sort|Convert|Count|"
    "Classify|Rank|Rate|Predict|Build|Design] {p}[.||!| for me.]",
    "What [would|should|could|do|did|can|might] [you|I|we|they|he|she|people|one|{m}] [do|eat|say|think|know|wear|cook|watch|learn|"
    "buy|study|bring|choose] [about|with|for|if|when|after|in] {p}[?|]",
    "[Which|What] [year|time|country|language|colour|animal|planet|city|book|film|king|war|song|number|element|language] "
    "[is|was|has|did|does|had|were] {p}[?|]",
    "What happened [in {n}|to {m}|to {p}|on that day|with {p}|after {p}][?|]", "[Is|Was] {n} [a prime|a prime number|even|odd|big]?",
    "What is {n} percent of {p}[?|]", "[Convert|Change|How much is] {n} {w} [to|in|into] {w}[.|?|]",
    "If [I|{m}] [have|has|buys|finds] {n} {w} and {m} [takes|gives me|eats|sells] {n}, how many are left?",
    "[How many|What are the] [primes|even numbers|digits|numbers] [below|between|up to|in] {n}?", "{p}", "{w}", "{n} {p}",
    "[Do you|Can you|Will you|Could you|Are you able to|Would you] [like|love|hate|speak|see|think about|dream of|believe in|"
    "remember|imagine|understand|drive|cook|play|fix|explain|sing] {p}[?||, please?]",
    "[Should|Can|May|Must|Shall] [I|we|he|she|{m}] {p}[?|]", "[When|Where] [was|is] {m} [born|buried|from|now|living][?|]",
    "Who [is|was] {m}[?| {m}?|]", "Who is the [president|king|queen|mayor|head|owner|boss|inventor] of {c}[?|]",
    "[How far|How long] is it from {c} to {c}[?|]", "[What is|Name] the capital of {c}[?|.|]", "What can one [see|eat|do] in {c}[?|]",
    "[Wie|Was|Warum|Wer|Qui|Que|Pourquoi|Comment|Cómo|Por qué|Qué|Come|Perché|Cosa] [ist|est|es|è|sont|hat|macht|fait|dit|son] {p}[?|]",
    "[Ich|Je|Yo|Io|Eu] [bin|suis|soy|sono|will|veux|quiero|möchte] {p}[.||!]", "lol {p}", "[asdf|qwerty|hmm|uh|what|no|yes|ok|why|maybe]",
    "[Good|Bad|Nice|Strange|Awful|Interesting|Wrong|Right][.|!||, but {p}.]", "[Stop|Wait|Go away|Never mind|Forget it|Shut up][.|!|]",
    "[The|My|Our|His|This|Some] {w} [is|was|has|does|makes|gets] {p}[.||, why?|. What now?]", "{p} or {p}[?|]", "{w} vs {w}[?|]",
    "[def|function|class|SELECT|import|for|if|while|return|let|int] {w} {p}[;|:||]", "{w}({w}) [=|->|:] {w}",
    "[Why|When|How] does the weather change[?|]", "What is a [file|name|tool|date|call|web|folder|tree][?| in {w}?]",
    "[Delete|Remove|Copy|Move|Rename|Close|Send|Upload|Install|Download] {p}[.||, please.]",
    "[Which|What] {w} [do you|should I|would you] [like|prefer|choose|take] [best|most|first|today][?|]",
    "[Let's|Let us|We could|Shall we] [play|talk about|discuss|start with|go to|make|sing] {p}[.|?||!]",
    "What [does|did] {p} mean[?|]", "What's the [matter|point|problem|deal|plan|news|idea|rule] with {p}[?|]",
    "[You are|You're|You were] [wrong|stupid|great|nice|a {w}|my {w}|so {w}][.|!|]", "[Act as|Be|Play|You are] a {w} and {p}[.|]",
)  # fmt: skip
_TRIGGERS = (
    "weather", "file", "files", "call", "name", "today", "date", "tools", "search", "list", "run", "read", "say", "repeat", "web",
    "answer", "question", "folder", "add", "first", "again", "tool", "write", "tree", "python", "sum", "hello",
)  # fmt: skip


def unanswerable(values: Values, frame: str) -> str:
    """A frame with its values, words among them that elsewhere ask for something it can do.

    unanswerable(Values(7), "Who invented {p}?")            # "Who invented the harbor file?"
    """
    made: Mapping[str, str] = {
        "p": _phrase(values), "w": values.word(), "n": str(values.number(4)), "m": values.name(), "c": values.city(),
    }  # fmt: skip
    return frame.format(**made)


def _phrase(values: Values) -> str:
    words = [_word(values) for _ in range(values.one((1, 1, 2, 2, 3, 4, 5, 7)))]
    if values.chance(0.25):
        words.insert(0, values.one(("the", "a", "my", "an", "some", "your", "this", "no", "all", "to", "in", "it")))
    if len(words) > 2 and values.chance(0.4):
        words.insert(2, values.one(("of", "and", "in", "with", "the", "to", "for", "is", "that", "from", "on", "or")))
    return " ".join(words)


def _word(values: Values) -> str:
    kind = values.random.random()
    if kind < 0.06:
        return values.one(_TRIGGERS)
    if kind < 0.10:
        return values.name()
    return str(values.number(4)) if kind < 0.13 else values.word()
