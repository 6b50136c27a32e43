"""A composition of the lanes that have ended so far, as the messages that stream it, and back.

Its parts are those of a composition, each in a ``Snapshot`` that says which one it belongs to. A part of a later one,
or of the composition itself, supersedes all before it: one that was cut short is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextbroker.v1 import context_service_pb2 as pb
from msgspec import Struct

from broker.core.composition import Composition
from broker.errors import Internal
from broker.wire.compositions import MAX_MESSAGE_BYTES, CompositionReader, encoded_end, encoded_parts
from broker.wire.encoded_audits import encoded_audit
from broker.wire.fields import Field

_AROUND = 16
"""Bytes that the tags, lengths and number around a part take, and then some."""

_RESPONSE = Field(pb.ComposeResponse.DESCRIPTOR.fields_by_name["snapshot"])
_PART = Field(pb.Snapshot.DESCRIPTOR.fields_by_name["part"])


class Snapshot(Struct, frozen=True, gc=False):
    """A whole composition of the lanes that had ended; what comes after it supersedes it.

    Attributes:
        number: Which one of its request, from 1. Numbers that were begun and not ended are missing.
        collecting: Lanes that had not ended, in lane order: none of their frames is in it.
        composition: Ranked by the strategy alone, without the request's reranker.
    """

    number: int
    collecting: tuple[str, ...]
    composition: Composition


def snapshot_messages(snapshot: Snapshot, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[bytes]:
    """The messages of a snapshot, encoded one by one as they are asked for; ``collecting`` comes with the last.

    Args:
        snapshot: The snapshot.
        max_bytes: Bytes of one message, at most; see :func:`~broker.wire.compositions.encoded_parts`.
    """
    composition, room = snapshot.composition, max_bytes - _AROUND
    number = pb.Snapshot(number=snapshot.number).SerializeToString()
    for part in encoded_parts(composition, room):
        yield _RESPONSE.message(number + _PART.message(part.joined()))
    # The names that the last part has beside its own are those of lanes which are not in it.
    last = pb.Snapshot(number=snapshot.number, collecting=snapshot.collecting).SerializeToString()
    audit = encoded_audit(composition.summary, composition.usage)
    yield _RESPONSE.message(last + _PART.message(encoded_end(composition, audit, room, beside_completed=len(last))))


class SnapshotReader:
    """Rebuilds the snapshots of one answer from their parts, in the order in which they come.

    Args:
        request_id: The request's name, which the parts do not repeat.
    """

    def __init__(self, request_id: str = "") -> None:
        self._request_id = request_id
        self._number = 0
        self._reader: CompositionReader | None = None

    def take(self, message: pb.Snapshot) -> Snapshot | None:
        """Takes one message.

        Returns:
            The snapshot that it ends; None: it ends none.

        Raises:
            Internal: It belongs to an earlier snapshot, to one that has ended, or to one that misses a part
                (``ANSWER_BROKEN``).
        """
        if message.number > self._number:
            self._number, self._reader = message.number, CompositionReader(self._request_id)
        elif message.number < self._number or self._reader is None:
            raise Internal(
                "ANSWER_BROKEN",
                f"the answer is broken: a part of snapshot {message.number} follows its end; ask again, and see the "
                "broker's log",
            )
        reader = self._reader
        assert reader is not None, "the first number is at least 1"
        reader.take_part(message.part)
        if not message.part.HasField("completed"):
            return None
        self._reader = None
        return Snapshot(message.number, tuple(message.collecting), reader.result())
