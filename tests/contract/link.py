"""A link of the tests' own between an instance and its sink: it drops, repeats, delays and resets what passes.

Its receiving end is what a transport between two brokers has to be: parts are numbered, a repeated one is passed over
and a hole is an ending. After that it is careless on purpose, and still hands on whatever comes, so that what keeps a
sink silent is the fabric and not the link.
"""

from __future__ import annotations

from enum import Enum, auto

from broker.gather.fabric import Ending, Sink


class Fault(Enum):
    NONE = auto()
    DROP = auto()
    REPEAT = auto()
    DELAY = auto()
    RESET = auto()


class Link:
    """The way of one answer."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._sent = 0
        self._due = 0
        self._late: list[tuple[int, bytes | tuple[Ending, str]]] = []

    def batch(self, data: bytes, fault: Fault = Fault.NONE) -> None:
        self._send(data, fault)

    def end(self, ending: Ending, message: str = "", fault: Fault = Fault.NONE) -> None:
        self._send((ending, message), fault)

    def flush(self) -> None:
        """What was delayed arrives now."""
        late, self._late = self._late, []
        for number, part in late:
            self._arrive(number, part)

    def _send(self, part: bytes | tuple[Ending, str], fault: Fault) -> None:
        number = self._sent
        self._sent += 1
        if fault is Fault.RESET:
            self._sink.end(Ending.LOST, "the link was reset")
        elif fault is Fault.DELAY:
            self._late.append((number, part))
            return
        if fault is not Fault.DROP:
            self._arrive(number, part)
        if fault is Fault.REPEAT:
            self._arrive(number, part)
        self.flush()

    def _arrive(self, number: int, part: bytes | tuple[Ending, str]) -> None:
        if number < self._due:
            return
        if number > self._due:
            self._sink.end(Ending.LOST, "a part is missing")
        self._due = number + 1
        if isinstance(part, bytes):
            self._sink.batch(part, False)
        else:
            self._sink.end(*part)
