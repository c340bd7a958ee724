"""Formulas as text; what has no such form stays as it was typed."""

from __future__ import annotations

import random

import pytest

from ossia.cli.terminal.markdown.latex import formulas, readable


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"$\sqrt{x}$", "√x"),
        ("$x^2$", "x²"),
        (r"\(\frac{a}{b}\)", "a/b"),
        (r"\[ \frac{a+b}{2c} \]", "(a+b)/(2c)"),
        (r"$$ x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a} $$", "x = (-b ± √(b² - 4ac))/(2a)"),
        (r"$\alpha \le \beta \times 2\pi r \ge \sum_{i=1}^{n} i^2$", "α ≤ β × 2π r ≥ ∑ᵢ₌₁ⁿ i²"),
        (r"\(a\cdot b\to c\)", "a · b → c"),
        (r"\(\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}\)", "∫₀^∞ e^(-x²) dx = √π/2"),
        (r"\(\sum_{n=1}^\infty \frac{1}{n^2} = \frac{\pi^2}{6}\)", "∑ₙ₌₁^∞ 1/n² = π²/6"),
        (r"\(\frac{dy}{dx} = \frac{\partial f}{\partial x}\)", "dy/dx = ∂f/∂x"),
        (r"\(\frac12 x + \frac{1}{2}y\)", "1/2 x + 1/2 y"),
        (r"\(\sqrt[3]{8} = 2, \sqrt{2}x, \sqrt[n]{ab}\)", "∛8 = 2, √2 x, ⁿ√(ab)"),
        (r"\(\sin\theta + 2\cos^2 x + \log_2 n + \lim_{x\to 0} f(x)\)", "sin θ + 2 cos² x + log₂ n + lim_(x → 0) f(x)"),
        (r"\(x_{max} + x_{bc} + 2^{10} + x^T + 90^\circ\)", "xₘₐₓ + x_bc + 2¹⁰ + xᵀ + 90°"),
        (r"\(e^{i\pi} + x_{bc} + 2^{10n}\)", "e^(iπ) + x_bc + 2¹⁰ⁿ"),
        (r"\(x \in \mathbb{R}, \mathbb{E}[X], \mathcal{L}\)", "x ∈ ℝ, 𝔼[X], L"),
        (r"\(\hat{x}, \vec{v}, \overline{AB}, \bar y\)", "x̂, v⃗, A̅B̅, y̅"),
        (r"\(\left(\frac{a}{b}\right)^2, \left.x\right|_0\)", "(a/b)², x|₀"),
        (r"\(\text{if } x \ne 0 \not= y \not\in Z\)", "if x ≠ 0 ≠ y ∉ Z"),
        (r"\(\{1, 2\} \subset A \implies 50\% \And\)", r"\(\{1, 2\} \subset A \implies 50\% \And\)"),
        (r"\(\{1, 2\}, 50\%\)", "{1, 2}, 50%"),
        (r"\(\boxed{42}\)", "42"),
        (r"\(a \pmod{n}, \binom{n}{k}\)", "a (mod n), C(n, k)"),
        ("\\[\n\\begin{aligned}\na &= b \\\\\n  &= c\n\\end{aligned}\n\\]", "a = b\n= c"),
        (r"\[\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}\]", "(1 2; 3 4)"),
        (r"\[|x| = \begin{cases} x & x \ge 0 \\ -x & \text{else} \end{cases}\]", "|x| = { x, x ≥ 0; -x, else"),
        ("$n$ ", "n"),
        (r"\(100\)", "100"),
        (r"\[ 42 \]", "42"),
        ("$F = ma$", "F = ma"),
        ("$f(x)$", "f(x)"),
        (r"\(H_2O\)", "H₂O"),
    ],
)
def test_a_formula_is_text(formula: str, text: str) -> None:
    assert readable(formula) == text


@pytest.mark.parametrize(
    "typed",
    [
        *(r"$\mystery{x}$", r"\(\frac{a}\)", r"\(x^\)", r"\(\)", r"$$$$", r"\(\text{a $x$}\)"),
        *("\\(\\alpha\x1b[2J\\q\\)", r"\(50%\)", r"\(#1\)"),
        *(r"\[not a link\]", "$ $", "$a b c and$", "$5 = 6 EUR$"),
        *("$5, or 6$", "$5 a 6$", "$100$", "$HOME$", "$PATH and $", "$FOO_BAR$", "$5/month, 6$", r"$C:\new\x$"),
        *(r"\(\begin{tikz}x\end{tikz}\)", r"\(\begin{matrix}x\)", r"\({x\)", r"\(x}\)", "\\(x\\\\)", r"\(\hat{ab}\)"),
        *("\\(" + "{" * 50 + "x" + "}" * 50 + "\\)", "\\(" + "\\sqrt{" * 50 + "x" + "}" * 50 + "\\)", "x^2"),
        *(r"\(\underbrace{a}_{b}\)", "\\(a &lt; b\\)", "\\(" + "\\overline{" * 15 + "x" + "}" * 15 + "\\)"),
    ],
)
def test_the_rest_stays_as_it_was_typed(typed: str) -> None:
    assert readable(typed) == typed


def test_no_formula_takes_long_or_raises() -> None:
    rng = random.Random(1)
    commands = ("frac", "sqrt", "begin{cases}", "end{cases}", "left", "text{", "\\", "alpha", "overline")
    pieces = [*"{}^_&~\\[]() x1\n", *(f"\\{command}" for command in commands)]
    for _ in range(3000):
        readable("\\(" + "".join(rng.choices(pieces, k=rng.randrange(30))) + "\\)")
    for piece in pieces:
        readable("\\(" + piece * 4000 + "\\)")
        readable("\\(" + (piece * 4000)[:3990] + "\\)")
    for opener in ("\\(", "\\[", "\\(a", "\\[a$$", "$$"):  # none is closed
        formulas(opener * 40_000)
