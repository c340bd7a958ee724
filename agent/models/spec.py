"""The specification of a model: which one, where it runs, and how it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ossia.agent.engine.remote.address import Address
    from ossia.agent.models.needs import KvType, Repack
    from ossia.agent.models.plan import LoadOptions


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model in this process, unless `script` (a file that is replayed) or `server` is given.

    `model` is a name, a file's path, or the server's name for it; None: the best one that is here, or the server's
    first. `by_file`: `model` is from the config file, so that the model of the server's own entry comes first.
    `context`: in tokens, None: what fits; `threads`, `gpu_layers`, `cpu_moe`, `kv_type` and `repack` are those of
    `LoadOptions`. `stays`: it will answer again and again, as in a chat, so that what makes it faster may take its time
    now. `lanes`: so many conversations are answered at once, each with a context of its own. `temperature` and `seed`
    None: the model's own, and chance. `private`: no KV cache is written to disk.
    `explicit` are the fields that the user has just given: what the server has no use for is reported then. `secrets`
    are left out of what is shown.

        ModelSpec("gpt-oss-20b", context=8192, stays=True)
        ModelSpec(server=parse_url("http://127.0.0.1:8080"))
    """

    model: str | None = None
    script: Path | None = None
    server: Address | None = None
    by_file: bool = False
    context: int | Literal["max"] | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    cpu_moe: int | None = None
    kv_type: KvType = "f16"
    repack: Repack = "auto"
    guided: bool = True
    temperature: float | None = None
    seed: int | None = None
    private: bool = False
    stays: bool = False
    lanes: int = 1
    explicit: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def load_options(self, own_temperature: float) -> LoadOptions:
        """The options of the plan, for a model whose own temperature is this.

        `repack` "auto" becomes "off" for a single answer, which isn't worth the copy, and for repeatable ones. With a
        seed or greedy sampling the same answer is expected again; a repacked copy rounds differently, and whether there
        is one would depend on how much memory is free.
        """
        from ossia.agent.models.plan import LoadOptions

        temperature = own_temperature if self.temperature is None else self.temperature
        single = not self.stays or self.seed is not None or temperature == 0
        repack = "off" if self.repack == "auto" and single else self.repack
        return LoadOptions(self.context, self.gpu_layers, self.cpu_moe, self.kv_type, repack, self.lanes)
