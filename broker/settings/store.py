"""What can be configured of the store: where compositions are kept, how long, and what a store that is away costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from broker.settings.base import Count, Seconds, Section


class Keeping(Section):
    """The record of compositions: their audits, usage and attribution.

    Attributes:
        kind: ``memory``: gone with the process. ``sqlite``: in ``file``. ``postgresql``: at the address in
            ``dsn_file``. ``none``: nothing is kept.
        file: SQLite's file, made where there is none.
        dsn_file: File that holds ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``, not readable by all.
        connections: PostgreSQL's, at most.
        required: Whether a composition that cannot be recorded fails (``AUDIT_UNAVAILABLE``); else it is answered and
            marked ``DEGRADED``.
        content: Whether goals, questions and the placed frames are kept too.
        wait_seconds: How long a composition waits to be recorded.
        synchronous: SQLite's: ``full``: what was committed outlives the power; ``normal``: the process alone.
        keep_days: How long compositions are kept.
        keep_compositions: How many are kept of each tenant; left out: any number, 1000 in memory.
    """

    kind: Literal["memory", "sqlite", "postgresql", "none"] = "memory"
    file: Path | None = None
    dsn_file: Path | None = None
    connections: Annotated[Count, Field(le=100)] = 5
    required: bool = False
    content: bool = False
    wait_seconds: Seconds = 2.0
    synchronous: Literal["full", "normal"] = "full"
    keep_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 30.0
    keep_compositions: Annotated[Count | None, Field(examples=[100_000])] = None

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        takes = {"sqlite": ("file", "synchronous"), "postgresql": ("dsn_file", "connections")}
        for kind, keys in takes.items():
            for key in keys:
                if kind != self.kind and getattr(self, key) != type(self).model_fields[key].default:
                    raise ValueError(f"{key} goes with the kind {kind!r}, and this is {self.kind!r}")
        if self.kind in takes and getattr(self, takes[self.kind][0]) is None:
            raise ValueError(f"the kind {self.kind!r} needs {takes[self.kind][0]}")
        if self.kind == "none" and self.required:
            raise ValueError("required goes with a store, and this is 'none'")
        return self
