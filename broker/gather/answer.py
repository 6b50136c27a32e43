"""The answer of an instance on its way to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from broker.gather.fabric import Ending, Handle, Sink
from broker.wire.events import Violation


class Answer(Struct, eq=False):
    """Stands between an instance and the asker's sink, and keeps the port's promises whatever the instance does.

    Until :meth:`broker.gather.fabric.Fabric.ask` has returned, what comes is kept; after that it goes through; after
    the ending or a cancellation nothing does.

    Attributes:
        instance: The handle on the instance; None before there is one, and after :meth:`cancel`.
        early: What came before the asker had its handle; None: it has it.
    """

    _sink: Sink | None
    _open: set[Answer]
    _on_last: Callable[[], None]
    instance: Handle | None = None
    early: list[Callable[[], None]] | None = []

    def batch(self, data: bytes, last: bool, /) -> None:
        """From the instance."""
        if self.early is not None:
            self.early.append(partial(self.batch, data, last))
        elif self._sink is not None:
            self._sink.batch(data, last)

    def end(self, ending: Ending, message: str, /) -> None:
        """From the instance."""
        if self.early is not None:
            self.early.append(partial(self.end, ending, message))
        elif self._sink is not None:
            sink, self._sink = self._sink, None
            self._open.discard(self)
            if not self._open:
                self._on_last()
            sink.end(ending, message)

    def cancel(self) -> None:
        """From the asker."""
        # The instance's side of it holds this one: a circle, until it is let go of.
        instance, self.instance = self.instance, None
        if self._sink is None:
            return
        self._sink = None
        self._open.discard(self)
        if not self._open:
            self._on_last()
        if instance is not None:
            instance.cancel()

    def reject(self, violations: Sequence[Violation], /) -> None:
        """From the asker."""
        if self.instance is not None:
            self.instance.reject(violations)

    def flush(self) -> None:
        """What came early goes through."""
        early, self.early = self.early or [], None
        for call in early:
            call()
