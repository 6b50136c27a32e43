"""A composition of the lanes that have ended so far, as the messages that stream it, and back.

Its parts are those of a composition, each in a ``Snapshot`` that says which one it belongs to. A part of a later one,
or of the composition itself, supersedes all before it: one that was cut short is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contextbroker.v1 import context_service_pb2 as pb

from broker.core.composition import Composition
from broker.errors import Internal
from broker.wire.compositions import MAX_MESSAGE_BYTES, CompositionReader, composition_messages

_AROUND = 16
"""Bytes that the tags, lengths and number around a part take, and then some."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole composition of the lanes that had ended; what comes after it supersedes it.

    Attributes:
        number: Which one of its request, from 1. Numbers that were begun and not ended are missing.
        collecting: Lanes that had not ended, in lane order: none of their frames is in it.
        composition: Ranked by the strategy alone, without the request's reranker.
    """

    number: int
    collecting: tuple[str, ...]
    composition: Composition


def snapshot_messages(snapshot: Snapshot, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[pb.ComposeResponse]:
    """The messages of a snapshot, made one by one as they are asked for; ``collecting`` comes with the last.

    Args:
        snapshot: The snapshot.
        max_bytes: Bytes of one message, at most; see :func:`~broker.wire.compositions.composition_messages`.
    """
    # The names that the last part has beside its own are those of lanes which are not in it.
    last = pb.Snapshot(number=snapshot.number, collecting=snapshot.collecting)
    for message in composition_messages(snapshot.composition, max_bytes - _AROUND, beside_completed=last.ByteSize()):
        part = pb.Snapshot(number=snapshot.number)
        match message.WhichOneof("message"):
            case "placed":
                part.placed.MergeFrom(message.placed)
            case "citations":
                part.citations.MergeFrom(message.citations)
            case "audit":
                part.audit.MergeFrom(message.audit)
            case "completed":
                part = last
                part.completed.MergeFrom(message.completed)
        yield pb.ComposeResponse(snapshot=part)


class SnapshotReader:
    """Rebuilds the snapshots of one answer from their parts, in the order in which they come.

    Args:
        request_id: The request's name, which the parts do not repeat.
    """

    def __init__(self, request_id: str = "") -> None:
        self._request_id = request_id
        self._number = 0
        self._reader: CompositionReader | None = None

    def take(self, part: pb.Snapshot) -> Snapshot | None:
        """Takes one part.

        Returns:
            The snapshot that it ends; None: it ends none.

        Raises:
            Internal: It belongs to an earlier snapshot, to one that has ended, or to one that misses a part
                (``ANSWER_BROKEN``).
        """
        if part.number > self._number:
            self._number, self._reader = part.number, CompositionReader(self._request_id)
        elif part.number < self._number or self._reader is None:
            raise Internal(
                "ANSWER_BROKEN",
                f"the answer is broken: a part of snapshot {part.number} follows its end; ask again, and see the "
                "broker's log",
            )
        reader = self._reader
        assert reader is not None, "the first number is at least 1"
        match part.WhichOneof("part"):
            case "placed":
                reader.take(pb.ComposeResponse(placed=part.placed))
            case "citations":
                reader.take(pb.ComposeResponse(citations=part.citations))
            case "audit":
                reader.take(pb.ComposeResponse(audit=part.audit))
            case "completed":
                reader.take(pb.ComposeResponse(completed=part.completed))
                self._reader = None
                return Snapshot(part.number, tuple(part.collecting), reader.result())
        return None
