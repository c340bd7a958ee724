r"""The signs of LaTeX's commands, and letters above and below the line."""

from __future__ import annotations

import re
from functools import cache

SEAM = "\0"
"""A blank, if letters or digits would touch there."""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_LETTERS = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν
xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ
Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ
aleph ℵ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ top ⊤ bot ⊥ angle ∠ triangle △ degree ° prime ′
circ ∘ bullet • star ⋆ dagger † ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈
rceil ⌉ lbrace { rbrace } lvert | rvert | vert | Vert ‖ lVert ‖ rVert ‖ imath ı jmath ȷ checkmark ✓ square □
blacksquare ■ backslash \\
"""
_SPACED = """
times × cdot · div ÷ pm ± mp ∓ ast ∗ le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ equiv ≡
sim ∼ simeq ≃ cong ≅ propto ∝ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ land ∧
wedge ∧ lor ∨ vee ∨ oplus ⊕ otimes ⊗ to → rightarrow → longrightarrow ⟶ gets ← leftarrow ← leftrightarrow ↔ mapsto ↦
Rightarrow ⇒ Longrightarrow ⟹ implies ⟹ Leftarrow ⇐ Leftrightarrow ⇔ iff ⟺ uparrow ↑ downarrow ↓ mid ∣ nmid ∤ parallel ∥
perp ⊥ models ⊨ vdash ⊢ therefore ∴ because ∵ colon : prec ≺ succ ≻ bmod mod lt < gt > doteq ≐ triangleq ≜ coloneqq ≔
"""
PREFIXES = frozenset(("partial", "nabla", "Delta", "forall", "exists", "nexists", "neg", "lnot"))
_BIG = "sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀"
FUNCTIONS = (
    "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan log ln lg exp lim limsup liminf max min sup inf "
    "det dim ker deg gcd arg hom Pr"
)
WORDS = _names("text textrm textbf textit texttt textsf textnormal mbox")
PLAIN = _names("mathrm mathbf mathit mathsf mathtt mathcal mathscr mathfrak boldsymbol bm operatorname boxed")
DROPPED = _names(
    "displaystyle textstyle limits nolimits left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr"
)
BLANKS = {",": " ", ";": " ", ":": " ", " ": " ", "!": "", "quad": "  ", "qquad": "    ", "\n": " "}
ACCENTS = {
    **dict.fromkeys(("hat", "widehat"), "\u0302"),
    **dict.fromkeys(("bar", "overline"), "\u0305"),
    **dict.fromkeys(("tilde", "widetilde"), "\u0303"),
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "underline": "\u0332",
}
ROWS = {
    **dict.fromkeys(("matrix", "bmatrix", "array"), ("[", " ", "]")),
    "pmatrix": ("(", " ", ")"),
    "vmatrix": ("|", " ", "|"),
    "cases": ("{ ", ", ", ""),
}
LINES = frozenset(f"{name}{star}" for name in ("align", "aligned", "equation", "gather", "gathered", "split")
                   for star in ("", "*"))  # fmt: skip

_RAISED = dict(zip(
    "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδφχ*′°∘†",
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᵠᵡ*′°°†",
    strict=True))  # fmt: skip
_LOWERED = dict(zip("0123456789+-=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True))
_SCRIPT_CHARS = 8  # longer ones are too small to be read
ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}


class Unreadable(Exception):
    """A part of the formula has no form as text."""


@cache
def symbols() -> dict[str, str]:
    def pairs(table: str) -> list[tuple[str, str]]:
        words = table.split()
        return list(zip(words[::2], words[1::2], strict=True))

    functions = {name: f"{SEAM}{name}{SEAM}" for name in FUNCTIONS.split()}
    big = {name: f"{SEAM}{sign}{SEAM}" for name, sign in pairs(_BIG)}
    return dict(pairs(_LETTERS)) | {name: f" {sign} " for name, sign in pairs(_SPACED)} | functions | big


def script(inner: str, *, raised: bool) -> str:
    """The text above or below the line, in Unicode's letters or else behind `^` or `_`."""
    inner = inner.strip().strip(SEAM)
    table, packed = (_RAISED if raised else _LOWERED), re.sub(r"[ \0]", "", inner)
    if packed and len(packed) <= _SCRIPT_CHARS and all(char in table for char in packed):
        return "".join(table[char] for char in packed)
    if not inner or "\n" in inner:
        raise Unreadable
    shown = inner if len(inner) == 1 or (inner.isalnum() and not raised) else f"({inner})"
    return f"{'^' if raised else '_'}{shown}{SEAM}"
