"""What the daemon does of each composition besides making it: it is recorded, and told of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from broker.auth.caller import anonymous
from broker.core.composition import Composition
from broker.core.lanes import Lane
from broker.core.request import CompositionRequest
from broker.rpc.observing import Observing
from broker.rpc.recording import Recorder
from broker.rpc.told import composition_told
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from broker.telemetry import logs
from broker.wire.compositions import encoded_parts
from broker.wire.encoded_audits import encoded_audit
from broker.wire.requests import ComposeCall, compose_request

_STAGES = {"gathering": 0.01, "composing": 0.002, "sending": 0.001, "recording": 0.003}


class Beside:
    """A store in memory, figures, and a log that goes nowhere."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        """Runs on a runner's loop, where the store was started."""
        self._runner = runner
        self._observing = Observing()
        self._recorder = Recorder(store, required=True, content=False, observing=self._observing)
        self._caller = anonymous("ipv4:127.0.0.1:1", operates=False)

    def record(self, composition: Composition, lanes: Sequence[Lane]) -> None:
        """Encodes what is kept of it, and keeps it, under another id each time."""
        self._runner.run(self._record(replace(composition, composition_id=secrets.token_hex(8)), lanes))

    def tell(self, composition: Composition) -> None:
        """Counts it, and writes its line."""
        composition_told(self._observing, composition, _STAGES, ())

    async def _record(self, composition: Composition, lanes: Sequence[Lane]) -> None:
        kinds = self._recorder.kinds
        parts = [kept for part in encoded_parts(composition) if (kept := part.joined(kinds))]
        audit = encoded_audit(composition.summary, composition.usage)
        call = ComposeCall(goal="why", composition=CompositionRequest(max_tokens=composition.summary.budget.max_tokens))
        await self._recorder.record(
            composition,
            compose_request(call),
            self._caller,
            parts,
            audit,
            lanes=list(lanes),
            until=math.inf,
            large=False,
        )


@contextlib.contextmanager
def beside() -> Iterator[Beside]:
    """It, while the block runs; the process's log is as it was afterwards."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    with Path(os.devnull).open("w") as nowhere, asyncio.Runner() as runner:
        logs.configure("info", "json", nowhere)
        store = Store(SqliteEngine(None, wait_seconds=10.0), now=time.time, wait_seconds=60.0)
        runner.run(store.start())
        try:
            yield Beside(runner, store)
        finally:
            runner.run(store.close())
            structlog.configure(**before)
            root.handlers[:] = handlers
            root.setLevel(level)
