"""What users say: the phrasings of each thing that is asked. Every fourth one is kept for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tests.etude.exam import others
from tests.etude.reserved import normalise
from tests.etude.values import Values

PHRASINGS: Mapping[str, tuple[str, ...]] = {
    "sum": (
        "What is {0}?", "Compute {0}.", "How much is {0}?", "Evaluate {0}", "Calculate {0}", "{0} = ?", "{0}",
        "Give me the value of {0}.", "Work out {0}.", "What does {0} make?", "Please calculate {0}.",
        "How many is {0}?", "{0}=", "Solve {0}", "What's {0}?", "Tell me what {0} is.", "I need to know {0}.",
        "Find the result of {0}.", "Can you do {0}?", "The answer to {0}, please.",
    ),
    "spoken sum": (
        "What is {0}?", "How much is {0}?", "Compute {0}", "What do you get for {0}?", "Please calculate {0}.",
        "What's {0}?", "Tell me {0}.", "Work out {0}, please.",
    ),
    "add": ("Add {0} to that.", "Now add {0}.", "Plus {0}?", "And {0} more?", "And plus {0}?", "Add {0}."),
    "subtract": ("Subtract {0} from that.", "Now subtract {0}.", "Minus {0}?", "And {0} less?", "Take away {0}."),
    "multiply": (
        "Multiply that by {0}.", "Now multiply by {0}.", "Times {0}?", "And that {0} times?", "Times {0}, then?",
    ),
    "divide": ("Divide that by {0}.", "Now divide by {0}.", "Divided by {0}?", "And over {0}?", "Divide it by {0}."),
    "weather": (
        "What is the weather in {0}?", "What is the weather like in {0}?", "How is the weather in {0}?",
        "What sort of weather is it in {0}?", "Weather in {0}?", "Tell me the weather in {0}.", "weather {0}",
        "Is the weather in {0} good?", "What's the weather in {0} now?", "I want to know the weather in {0}.",
        "The weather in {0}, please.", "Do you know the weather in {0}?", "How warm is the weather in {0}?",
        "Check the weather in {0}.", "What weather does {0} have?", "Look at the weather of {0}.",
    ),
    "weather too": ("What about {0}?", "And in {0}?", "And {0}?", "How about {0}?", "And for {0}?", "Same for {0}."),
    "call": (
        "Call {0}{1}", "Use {0}{1}", "Please call {0}{1}", "Run the tool {0}{1}", "Use the tool {0}{1}", "Try {0}{1}",
        "Call the function {0}{1}", "Please invoke {0}{1}", "Make a call to {0}{1}", "Now use {0}{1}",
        "I want you to call {0}{1}", "Let {0} run{1}",
    ),
    "list": (
        "List the files in {0}.", "What files are in {0}?", "Show me the files in {0}",
        "What does the folder {0} hold?", "list {0}", "Which files are there in {0}?", "ls {0}",
        "Name the files in {0}.", "List the folder {0}", "What is in the folder {0}?", "Which files does {0} have?",
        "Tell me the files of {0}.", "Show the directory {0}", "Look into the folder {0}", "List {0} for me.",
        "What files can you see in {0}?",
    ),
    "list here": (
        "List the files.", "What files are here?", "List the files in this directory", "Which files do I have?",
        "Which files are there?", "Show me the files here", "List this folder.", "Show all files", "List all files",
        "What files do I have?", "What is in this folder?", "What is here?", "Show the files.", "Name the files here.",
        "List this directory", "Name all files", "Show this folder", "Which files are here?", "Tell me the files here.",
        "What do I have here?",
    ),
    "read": (
        "Read {0}.", "Read the file {0}", "What is in the file {0}?", "Show the text of {0}", "What does {0} say?",
        "Open the file {0}.", "cat {0}", "Print the file {0}.", "Show me the file {0}",
        "What does the file {0} contain?", "Please read {0}", "Tell me what {0} says.", "Give me the text of {0}",
        "Read me {0}", "Show me what is in {0}", "What is in {0}?", "Read out {0}", "What's in {0}?",
        "What stands in {0}?",
    ),
    "shell": (
        "Run {0}", "Run `{0}`", "Please run {0}", "Start `{0}`", "Execute `{0}`", "Run the command {0}",
        "Execute the command `{0}`", "Do `{0}` in the shell", "Run {0} in the shell", "Please execute {0}",
        "Run this: {0}", "Give the command {0}",
    ),
    "search": (
        "Search the web for {0}.", "Search for {0}", "Look up {0} on the web.", "Browse the web for {0}.",
        "Find {0} on the web", "What does the web say about {0}?", "Google {0}", "Do a web search for {0}",
        "Look on the web for {0}", "Search the internet for {0}.", "Find out about {0} on the web.",
        "Look {0} up online.", "Please search for {0}", "Search online for {0}.",
        "What can you find on the web about {0}?", "See what the web has on {0}",
    ),
    "greeting": (
        "Hello there", "Hello {0}!", "Hi there", "Hi {0}!", "Hey", "hi there!", "Good morning", "Good afternoon",
        "Good evening!", "hello you", "Hey there!", "Hello again", "Hi étude", "Good day", "hey {0}", "Hello to you",
        "Hello dear model", "Hi again!", "Hello, how are you?", "Hi étude, how are you?", "Good morning {0}",
        "Greetings!", "Hi, how are you?", "Hello dear friend", "Greetings, {0}", "Good day, {0}!", "Hello again {0}",
        "Good evening {0}", "Hey {0}, how are you?", "Hello, how are you, {0}?", "Again: hello {0}",
        "Hi {0}, how are you?", "{0} says hello", "{0} greets you", "Hello from {0}", "A good morning from {0}",
        "How are you?", "How do you do?", "How are you today?", "How do you do, {0}?",
    ),
    "who": (
        "Who are you then?", "What are you?", "what are you called", "Which model are you?", "What is your name?",
        "Are you ChatGPT?", "Tell me about yourself.", "Say who you are.", "Tell me who you are.",
        "Which model is this?", "Who am I talking to?", "Now who are you?", "Introduce yourself.", "what model is this",
        "What model are you?", "What kind of model is this?", "What kind of model are you?", "Are you a model?",
        "What is this model?", "And what are you?", "Are you {0}?", "Is your name {0}?", "Tell {0} who you are.",
        "{0} wants to know who you are.", "{0} asks who you are.", "What kind of {0} are you?",
        "Are you the model {0}?", "Introduce yourself to {0}.", "Tell {0} about yourself.", "Which {0} are you?",
        "Are you called {0}?", "Are you {0} or who are you?", "Who made you?", "What can I call you?",
        "Do you have a name?", "Who is this?", "{0} asks what you are.", "Explain to {0} who you are.",
        "Do you know who you are?", "You are who?",
    ),
    "repeat": (
        "Repeat after me: {0}", "Say {0}", "Repeat: {0}", "Say this: {0}", "Please say: {0}", "Echo {0}", "Say: {0}",
        "Repeat these words: {0}", "Repeat this: {0}", "Please repeat: {0}", "Say after me: {0}", "Say as I do: {0}",
    ),
    "my name": (
        "My name is {0}.", "I am {0}", "Hi, I'm {0}!", "Hello, I am {0}.", "Hello, my name is {0}.", "I'm {0}.",
        "Call me {0}.", "People call me {0}.",
    ),
    "who am i": (
        "What is my name?", "Who am I?", "Do you remember my name?", "What am I called?", "Tell me my name.",
        "Which name did I give you?", "Say my name.", "Do you know my name?", "{0} asks for my name.",
        "Tell {0} my name.", "Say my name to {0}.", "Does {0} know my name?", "{0} wants to know my name.",
        "What am I called, {0}?", "My name for {0}, please.", "What is my name, {0}?",
    ),
    "thanks": (
        "Thanks a lot", "Thank you so much!", "Thank you, {0}.", "Many thanks", "Great, thanks!", "thanks for that",
        "Thank you very much", "Thanks so much!", "Thanks {0}!", "{0}, thank you!", "Thanks for {0}",
        "Thank you for {0}.", "Great, thank you {0}", "Thanks a lot, {0}!", "{0} thanks you", "{0} says thank you",
        "Thank you, that was good.", "Thanks again", "That is great, thanks", "Thank you again!",
    ),
    "date": (
        "What is the date?", "What day is it today?", "What is the current date?", "Which day is today?",
        "Which date is it?", "What is today's date?", "Tell me the date.", "Do you know the date?",
        "What is the date in {0}?", "Tell {0} the date.", "What day is it in {0}?", "Which day is it in {0}?",
        "{0} asks for the date.", "What date is it today, {0}?", "What is the date, {0}?",
        "Which date do we have, {0}?", "The date, please.", "Say the date.", "date today", "Today's date?",
        "I am in {0}, what day is it?", "What is the current date in {0}?", "I need the date for {0}.",
        "Give {0} today's date.",
    ),
    "tools": (
        "What tools do you have?", "Which tools can you use?", "What can you do?", "Name your tools.",
        "List your tools.", "Tell me your tools.", "Which tools are there?", "What tools are on?", "Show me your tools",
        "What are your tools?", "What tools do you have for {0}?", "Which tools do you have, {0}?",
        "Show {0} your tools.", "List your tools for {0}.", "Which tools can I use for {0}?",
        "Tell {0} which tools you have.", "{0} asks what tools you have.", "What tools can you use?",
        "Which tools do you know?", "With which tools do you work?", "Which tools have you got?",
        "Tell {0} your tools.", "Are there tools for {0}?", "Are there any tools?",
    ),
    "anything": (
        "Write a poem about {0}.", "Why is {0}?", "How do I {0}?", "Describe {0}", "Explain {0}", "Can you {0}?",
        "Tell me a joke about {0}", "What do you think about {0}?", "Do you like {0}?", "Should I {0}?", "{0}",
        "Translate {0}", "When did {0}?", "Who invented {0}?", "Why are {0}?", "Where is {0}?",
        "Write a story about {0}", "What is {0}?", "Is {0} good?", "Compare {0}",
    ),
    "first": (
        "What was my first question?", "What did I ask first?", "Repeat my first message.", "What did I say first?",
        "Which question came first?", "Tell me my first message.", "What was the first thing I said?",
        "What was my first message?", "What did {0} ask you first?", "Tell {0} my first message.",
        "What was my first question, {0}?", "Show {0} my first question.", "I am {0}: what did I ask first?",
        "What did I ask you first, {0}?", "{0} wants to hear my first message.", "{0} asks what I said first.",
    ),
    "again": (
        "Say that again.", "Repeat that.", "Once more, please.", "Say it once more.", "Repeat your last answer.",
        "Again, please.", "Say it again.", "Repeat it once more.", "Say that again for {0}.", "Repeat that for {0}.",
        "Once more for {0}, please.", "Say it once more for {0}.", "Repeat your last answer for {0}.",
        "Tell {0} that again.", "Again for {0}, please.", "Tell {0} once more.",
    ),
    "person": (
        "{0} is {1} years old.", "My friend {0} is {1}.", "{0}, {1}", "{0} has turned {1}.",
        "I am {0} and I am {1} years old.", "Name {0}, age {1}", "This is {0}, who is {1}.", "{0} will be {1} soon.",
    ),
    "shopping": (
        "I need to buy {0}", "Buy {0}.", "I need {0}", "Get me {0}", "Please add {0} to the list", "We need {0}.",
        "My list: {0}", "Put {0} on the list.",
    ),
    "event": (
        "There is a {0} in {1}.", "The {0} takes place in {1}", "{0} at {1}", "In {1} we have a {0}.", "A {0} in {1}.",
        "We go to the {0} in {1}.", "The {0} is in {1}.", "{1} has a {0}.",
    ),
    "pairs": (
        "The {0} is {1} and the {2} is {3}.", "{0}: {1}, {2}: {3}", "{0} = {1} and {2} = {3}", "{0} {1}, {2} {3}",
        "{0} is {1}, {2} is {3}", "My {0} is {1}, my {2} is {3}.",
    ),
}  # fmt: skip

_BEFORE = ("Please ", "Hey, ", "OK, ", "Could you kindly ", "Now ", "Well, ", "So, ", "Right, ")
_AFTER = (" please", " for me", " now", " if you can", ", thanks", " again", " then", " today")
_WITH = (" with {0}", ": {0}", ", {0}", " using {0}", " with the {0}", " for {0}", " ({0})", " on {0}")
_PAIR = ("{0} {1}", "{0}={1}", "{0}: {1}", "{0} set to {1}", "{0} = {1}")
_JOIN = (" and ", ", ", ", and ")
_PLACES = ("{0}", "{1}", "{2}", "{3}")
_MANY = 4000  # what training says of a key, as good as all of it


def phrased(values: Values, key: str, *parts: object) -> str:
    """One of the phrasings: `phrased(values, "read", "a.txt")` → `"Show me the file a.txt"`.

    Now and then words stand around it that mean nothing. In an exam of new values a phrasing always has one: a turn
    without any would be one that training has.
    """
    if values.of_others and (written := unlike_training(key)):
        text = values.one(written).format(*parts)
        return text.removesuffix(".") if text.endswith("..") else text  # a call's arguments may end in one
    phrasing = _some(values, PHRASINGS[key])
    text = phrasing.format(*parts)
    mark = phrasing[-1] if phrasing[-1] in ".?!" else ""
    closed = not phrasing.removesuffix(mark).endswith("}")  # else nobody could tell where the value ends
    if phrasing[0] != "{" and values.chance(0.08):
        return _some(values, _BEFORE) + text[:1].lower() + text[1:]
    if closed and values.chance(0.1):
        return text.removesuffix(mark) + _some(values, _AFTER) + mark
    return text


def arguments_of(values: Values, arguments: Mapping[str, object]) -> str:
    """How a call's arguments are said: `" with room kitchen and level 40"`."""
    if not arguments:
        return ""
    pair = values.one(unlike_training("with")) if values.of_others else _some(values, _PAIR)
    said = values.one(_JOIN).join(
        pair.format(name, str(value).lower() if isinstance(value, bool) else value) for name, value in arguments.items()
    )
    return _some(values, _WITH).format(said)


@cache
def unlike_training(key: str) -> tuple[str, ...]:
    """The phrasings that others wrote of it, without those that training happens to have, too."""
    known = Values(1)
    if key in PHRASINGS:
        said = {normalise(phrased(known, key, *_PLACES)) for _ in range(_MANY)}
    else:
        said = {normalise(_some(known, _PAIR)) for _ in range(_MANY)} if key == "with" else set()
    return tuple(one for one in others.phrasings().get(key, ()) if normalise(one) not in said)


def _some(values: Values, choices: tuple[str, ...]) -> str:
    """One of those that training sees, or one of the others."""
    new, with_value = values.unseen == "phrasing", values.unseen == "values" and choices in PHRASINGS.values()
    known = [text for place, text in enumerate(choices) if (place % 4 == 3) is new]
    return values.one([text for text in known if "{" in text or not with_value])
