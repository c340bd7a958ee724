"""Functions that a client of ours runs: the model's calls are read, held to the schema, and given to the client."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from ossia.tools.functions.naming import PREFIX
from ossia.tools.spec import Preview, Taint, ToolContext, ToolOutput, ToolResult, ToolSpec


@dataclass(slots=True)
class ReturnedFunction:
    """A tool that never runs here: `ToolSpec.returned`.

    ReturnedFunction.of("get_weather", "The weather of a city.", {"type": "object", "properties": {…}})
    """

    spec: ToolSpec

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        parameters: Mapping[str, object] | None,
        *,
        shown: Mapping[str, object] | None = None,
    ) -> ReturnedFunction:
        """`name` without the prefix of functions. What the client says of it, and gives as results, is outside text."""
        outside: frozenset[Taint] = frozenset({"outside"})
        return cls(
            ToolSpec(
                PREFIX + name, description, parameters, provenance="user", origin="client", taints=outside,
                result_taints=outside, returned=True, shown=shown,
            )
        )  # fmt: skip

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return Preview("")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        yield from ()
        raise AssertionError(f"{self.spec.name} is a client's")

    def close(self) -> None:
        """Nothing is held."""
