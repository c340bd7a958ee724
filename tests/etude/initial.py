"""Starting weights that can copy, and find a cited line's number: `python -m tests.etude.initial` says how well.

Learning to copy is nearly all that training from random weights would do for its first ten minutes, so the attention
heads that do it are set by hand; everything is trained on from there. The residual stream is cut into slots:

    0..63 the token | 64.. the one before | 96.. two before | 128.. three before | 160.. the token to say
    192.. the line's number | 224.. (for layer 3) the tokens four, five and six before

Layer 0: heads that look exactly 1, 2 and 3 tokens back. Layers 1 and 3: one head finds where this token stood before,
one where these three did, and both say what followed there. For citations `fact 【1†L5】`: in layer 1 each token of a
page learns the number of its line (the nearest number after an `L`); in layer 2 heads look 4, 5 and 6 back, which at
that `L` are the fact's last tokens; in layer 3 a head finds these on the page and says the number of that line.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.etude import tokenizer
from tests.etude.dialogues import make_dialogue
from tests.etude.lessons import sheet_of
from tests.etude.network import Weights, logits, prepared, random_weights, rope_tables
from tests.etude.prompts import make_prefix
from tests.etude.shape import Shape
from tests.etude.sheet import Sheet, lay_out
from tests.etude.words.values import Values

TOKEN = slice(0, 64)
BEFORE = (slice(64, 96), slice(96, 128), slice(128, 160))
SAID = slice(160, 192)
LINE = slice(192, 224)
FACT = slice(224, 256)
ONE_SCALE, THREE_SCALE = 1.7, 1.45  # how sharply the copying heads of layers 1 and 3 compare
CODE = 32  # numbers a token is known by in a slot

_FAST = 6  # the rotary pairs that tell neighbouring positions apart
_SLOW = 0.0016  # radians a token: pairs below this hardly turn, and serve to compare contents


@dataclass(frozen=True, slots=True)
class Marks:
    """The ids of a citation's parts: `L`, and ` 【`."""

    line: int
    opening: int


def citation_marks() -> Marks:
    """Those of the étude's vocabulary."""
    vocabulary = tokenizer.load()
    return Marks(vocabulary.token_to_id("L"), vocabulary.encode(" 【").ids[0])


class Circuits:
    """Writes heads into weights.

    A slot of the stream holds `code @ token`, that of the token to say `spoken @ token`.
    """

    def __init__(self, weights: Weights, shape: Shape, seed: int) -> None:
        self.weights, self.shape = weights, shape
        self._random = torch.Generator().manual_seed(seed)
        basis = self.orthogonal(64)
        self.code, self.rest = basis[:CODE], basis[CODE:]
        self.opened = self.rest[0]
        self.spoken = self.orthogonal(64)[:CODE]
        cos, sin = rope_tables(shape, torch.ones(1))
        half = shape.head_width // 2
        self.turns = torch.atan2(sin[0, 0], cos[0, 0])  # radians a token, of each pair
        pairs = (self.turns < _SLOW).nonzero()[:, 0]
        self.slow = torch.cat((pairs, pairs + half))
        self.middle = ((self.turns >= _SLOW) & (self.turns < 0.16)).nonzero()[:, 0]

    def normal(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self._random)

    def orthogonal(self, size: int) -> Tensor:
        return torch.linalg.qr(self.normal(size, size))[0]

    def query(self, head: int) -> slice:
        return slice(head * self.shape.head_width, (head + 1) * self.shape.head_width)

    def key(self, group: int) -> slice:
        start = self.shape.query_width + group * self.shape.head_width
        return slice(start, start + self.shape.head_width)

    def value(self, group: int) -> slice:
        start = self.shape.query_width + self.shape.key_width + group * self.shape.head_width
        return slice(start, start + self.shape.head_width)

    def back_bias(self, distance: int, strength: float) -> Tensor:
        """A query that, with a key of ones in the fast pairs' first halves, scores highest at exactly that distance."""
        bias, half = torch.zeros(self.shape.head_width), self.shape.head_width // 2
        bias[:_FAST] = strength * torch.cos(distance * self.turns[:_FAST])
        bias[half : half + _FAST] = -strength * torch.sin(distance * self.turns[:_FAST])
        return bias

    def look_back(self, layer: int, head: int, distance: int, into: slice, by: Tensor, strength: float = 6.0) -> None:
        """The token so far before, `by @ code @ token`, into a slot. Heads of a group share its key and value."""
        qkv, bias, out = (self.weights[f"{layer}.{name}"] for name in ("qkv", "qkv_bias", "out"))
        group = head // (self.shape.heads // self.shape.kv_heads)
        qkv[self.query(head)] = qkv[self.key(group)] = qkv[self.value(group)] = 0
        bias[self.query(head)] = self.back_bias(distance, strength)
        bias[self.key(group)] = 0
        bias[self.key(group)][:_FAST] = strength
        qkv[self.value(group), TOKEN][:CODE] = self.code
        out[:, self.query(head)] = 0
        out[into, self.query(head)][:, :CODE] = by

    def match(self, layer: int, head: int, pairs: list[tuple[slice, Tensor, slice, Tensor]], said: float) -> None:
        """A head that finds where `key` slots are like `query` slots are here, and says the token that stands there."""
        qkv, out = self.weights[f"{layer}.qkv"], self.weights[f"{layer}.out"]
        group = head // (self.shape.heads // self.shape.kv_heads)
        qkv[self.query(head)] = qkv[self.key(group)] = qkv[self.value(group)] = 0
        start = 0
        for key_slot, key_by, query_slot, query_by in pairs:
            dims = self.slow[start : start + len(key_by)]
            qkv[self.key(group).start + dims, key_slot] = key_by
            qkv[self.query(head).start + dims, query_slot] = query_by
            start += len(key_by)
        qkv[self.value(group), TOKEN][:CODE] = self.spoken
        out[:, self.query(head)] = 0
        out[SAID, self.query(head)][:, :CODE] = torch.eye(CODE) * said


@torch.no_grad()
def initial_weights(
    shape: Shape, seed: int = 0, twins: list[tuple[int, int]] | None = None, marks: Marks | None = None
) -> Weights:
    """Random weights with the circuits in them.

    `twins`: ids of tokens that differ by a blank before, which start out alike. Without `marks` there is no citation
    circuit.
    """
    if shape.width < 256 or shape.kv_heads != 2 or shape.layers < 4 or shape.heads < 4:
        raise ValueError("the circuits need a width of 256, 4 layers and 2 groups of 2 heads")
    weights = random_weights(shape)
    for layer in range(shape.layers):  # what is random says little, so that it does not disturb the circuits
        weights[f"{layer}.out"] *= 0.1
        weights[f"{layer}.down"] *= 0.1
    circuits = Circuits(weights, shape, seed)
    _tokens(circuits, twins or [], marks)
    group = shape.heads // shape.kv_heads
    for head, distance in ((0, 1), (1, 2), (group, 3)):
        circuits.look_back(0, head, distance, BEFORE[distance - 1], torch.eye(CODE) * 0.6)
    parts = _copying(circuits)
    if marks is not None:
        _citing(circuits, parts, group)
    weights["output"].normal_(0, 0.02, generator=torch.Generator().manual_seed(seed))
    weights["output"][:, SAID] += weights["embedding"][:, TOKEN] @ circuits.spoken.T * 0.5
    return weights


def _tokens(circuits: Circuits, twins: list[tuple[int, int]], marks: Marks | None) -> None:
    """Random codes; of `L` one that no other token has a part in, so that it can be told for certain."""
    embedding = circuits.weights["embedding"].zero_()
    codes = circuits.normal(len(embedding), 64)
    for plain, spaced in twins:
        codes[spaced] = 0.8 * codes[plain] + 0.6 * codes[spaced]
    if marks is not None:
        for mark in (circuits.code[0], circuits.opened):
            codes -= torch.outer(codes @ mark, mark)
        codes[marks.line] = circuits.code[0]
        codes[marks.opening] += circuits.opened * codes[marks.opening].norm()
    # Every token, and what is stored of it in a slot, gets the same length: else norms would disturb what is compared.
    rest = codes @ circuits.rest.T @ circuits.rest
    codes = functional.normalize(codes - rest, dim=1) + functional.normalize(rest, dim=1)
    embedding[:, TOKEN] = codes * 4.5


def _copying(circuits: Circuits) -> list[Tensor]:
    """The two copying heads of layers 1 and 3. Returns by what layer 3 compares three tokens, the latest first."""
    group = circuits.shape.heads // circuits.shape.kv_heads
    room = min(len(circuits.slow) - 1, CODE)  # one is left for the gate of citations
    counts = (room - 2 * (room // 3), room // 3, room // 3)
    parts: list[Tensor] = []
    for layer, (one, three) in ((1, (0.5, 1.0)), (3, (0.15, 0.3))):
        by = _comparing(circuits, room) * ONE_SCALE
        circuits.match(layer, 0, [(BEFORE[0], by, TOKEN, by @ circuits.code)], one)
        parts = [circuits.orthogonal(CODE)[:count] for count in counts]
        scaled = [part * THREE_SCALE for part in parts]
        queries = (scaled[0] @ circuits.code * 1.5, scaled[1], scaled[2])
        slots = (TOKEN, BEFORE[0], BEFORE[1])
        pairs = list(zip(BEFORE, scaled, slots, queries, strict=True))
        circuits.match(layer, group, pairs, three)
    return parts


def _comparing(circuits: Circuits, count: int) -> Tensor:
    """Orthogonal rows of which the first is for the part that `L` alone has."""
    by = torch.zeros(count, CODE)
    by[0, 0] = 1
    by[1:, 1:] = circuits.orthogonal(CODE - 1)[: count - 1]
    return by


def _citing(circuits: Circuits, parts: list[Tensor], group: int) -> None:
    weights = circuits.weights
    # Layer 1, the second head of group 0, which has the tokens before as its keys and the tokens as its values.
    bias, out = weights["1.qkv_bias"], weights["1.out"]
    weights["1.qkv"][circuits.query(1)] = 0
    bias[circuits.query(1)] = 0
    bias[circuits.query(1).start + circuits.slow[0]] = 45.0
    # A sum of cosines over many scales falls with distance; so weighted, from 2 to 45 tokens without an exception.
    nearness = circuits.turns[circuits.middle] ** -0.3
    bias[circuits.query(1).start + circuits.middle] = nearness * (90 / nearness.sum())
    bias[circuits.key(0).start + circuits.middle] = 5.0
    out[:, circuits.query(1)] = 0
    out[LINE, circuits.query(1)][:, :CODE] = torch.eye(CODE) * 0.6
    # Layer 2: the tokens 4, 5 and 6 before, each by what layer 3 compares.
    start = 0
    for head, distance, part in ((0, 4, parts[0]), (1, 5, parts[1]), (group, 6, parts[2])):
        circuits.look_back(2, head, distance, slice(FACT.start + start, FACT.start + start + len(part)), part * 0.6)
        start += len(part)
    # Layer 3, the second head of group 1, which has the three tokens before as its keys.
    head = group + 1
    qkv, bias, out = weights["3.qkv"], weights["3.qkv_bias"], weights["3.out"]
    qkv[circuits.query(head)] = 0
    dims = circuits.query(head).start + circuits.slow
    qkv[dims[:start], FACT][:, :start] = torch.eye(start) * 4
    qkv[dims[:start], FACT.start : FACT.start + start] = torch.eye(start) * 4
    gate = circuits.slow[-1]
    qkv[circuits.query(head).start + gate, TOKEN] = circuits.code[0] * 6
    weights["3.sinks"][head] = 10.0
    bias[circuits.query(head)] = 0
    bias[circuits.query(head).start + gate] = -20
    bias[circuits.key(1)] = 0
    bias[circuits.key(1).start + gate] = 6
    qkv[circuits.key(1).start + gate, TOKEN] = -1.15 * circuits.opened  # not the fact as it was just said
    qkv[circuits.value(1), LINE][CODE : 2 * CODE] = torch.eye(CODE)
    out[:, circuits.query(head)] = 0
    out[SAID, circuits.query(head)][:, CODE : 2 * CODE] = torch.eye(CODE) * 2


@torch.no_grad()
def _right(weights: Weights, shape: Shape, sheet: Sheet) -> Tensor:
    return (logits(weights, shape, sheet).argmax(-1) == sheet.targets)[sheet.targets >= 0]


def main() -> None:
    """Print how much of random tokens is copied, and how many cited lines are found, before any training."""
    torch.manual_seed(0)
    shape = Shape(tokenizer.load().get_vocab_size())
    exact = initial_weights(shape, 0, tokenizer.twins(), citation_marks())
    weights = prepared(exact, dtype=torch.float32, quantised=False)
    ids = torch.randint(0, shape.vocabulary - 20, (60,)).tolist()
    copied = _right(weights, shape, lay_out(ids[:1], [([*ids[1:], *ids], [False] * 60 + [True] * 59)]))
    print(f"random tokens copied: {float(copied.float().mean()):.3f}")
    values, found = Values(5, "values"), list[bool]()
    while len(found) < 20:
        if not (prefix := make_prefix(values)).has_browser:
            continue
        dialogue = make_dialogue(values, prefix, "browser")
        if "†L" in dialogue.segments[-1][0]:
            right = _right(weights, shape, sheet_of(prefix, [dialogue]))
            found.append(bool(right[-3]))  # the number, `】`, `<|return|>`
    print(f"cited lines found: {sum(found)} of {len(found)}")


if __name__ == "__main__":
    main()
