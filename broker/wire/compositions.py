"""A composition as the parts that stream it, none above 512 KiB, and back.

Its order is: placed frames in prompt order, citations, audit rows, and last one ``Completed``: a stream that was cut is
never taken for a whole one. What :class:`CompositionReader` rebuilds equals what was sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import Message
from msgspec import Struct

from broker.core.composition import AuditState, Citation, Composition, Placed
from broker.errors import Internal
from broker.wire.audits import read_row, read_summary, read_usage
from broker.wire.encoded import citation_items, placed_items, row_items
from broker.wire.encoded_audits import EncodedAudit
from broker.wire.fields import Field, as_bytes
from broker.wire.frames import frame_value, ref_value
from broker.wire.updates import read_accepted

MAX_MESSAGE_BYTES = 512 * 1024
"""Bytes of one message, at most."""

FILL_BYTES = 160 * 1024
"""Bytes that a message is filled to: larger ones hardly travel faster, and a reader that stalls keeps one waiting."""

HEADROOM = 64
"""Bytes that the tags and lengths around a part's items take, and then some."""

ITEM_TAG = 6
"""Bytes of one item's tag and length inside its part, at most."""

RUN = 32
"""Items that are encoded at once."""

KINDS = ("placed", "citations", "audit")
"""What a composition has many of, by their names in ``Part`` and in their order."""

_SUMMARY, _USAGE = (Field(composition_pb2.Completed.DESCRIPTOR.fields_by_name[name]) for name in ("summary", "usage"))
_STATES = {state: composition_pb2.AuditState.Value(f"AUDIT_STATE_{state.value}") for state in AuditState}
_PART = {field.name: Field(field) for field in composition_pb2.Part.DESCRIPTOR.fields}
_RESPONSE = Field(pb.ComposeResponse.DESCRIPTOR.fields_by_name["part"])


class EncodedPart(Struct, frozen=True, gc=False):
    """Some of a composition, encoded.

    Attributes:
        items: The items of each of :data:`KINDS` that it has any of, in strings whose characters are bytes.
    """

    items: Mapping[str, Sequence[str]]

    def joined(self, kinds: Collection[str] = KINDS) -> bytes:
        """The part with items of those kinds alone; nothing where it has none."""
        own = [items for kind, items in self.items.items() if kind in kinds]
        return as_bytes("".join(chain.from_iterable(own)))


def encoded_parts(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[EncodedPart]:
    """The parts of a composition but the last, made one by one as they are asked for.

    A frame that would be larger than a message may be is cut to fit, where it is least missed: provenance that other
    copies lent it, then vouchers.

    Args:
        composition: The composition.
        max_bytes: Bytes of one message, at least 512 KiB for every frame that the core lets pass to fit uncut. It is
            filled up to :data:`FILL_BYTES` where that is less, and further only by one item that is larger.
    """
    room = max_bytes - HEADROOM
    fill = min(room, FILL_BYTES)
    pieces: dict[str, list[str]] = {}
    size = 0
    for kind, run in _runs(composition):
        # What fits whole is taken whole; else each item is weighed on its own.
        fits = size + sum(map(len, run)) <= fill
        for items in (run,) if fits else [[item] for item in run]:
            weight = sum(map(len, items))
            if weight > room and kind == "placed":
                items = [_shortened(items[0], room - ITEM_TAG)]
                weight = len(items[0])
            if size and size + weight > fill:
                yield EncodedPart(pieces)
                pieces, size = {}, 0
            pieces.setdefault(kind, []).extend(items)
            size += weight
    if size:
        yield EncodedPart(pieces)


def _runs(composition: Composition) -> Iterator[tuple[str, list[str]]]:
    """What a composition has many of, encoded a few at a time as they are asked for."""
    for start in range(0, len(composition.placed), RUN):
        yield "placed", placed_items(composition.placed[start : start + RUN])
    for start in range(0, len(composition.citations), RUN):
        yield "citations", citation_items(composition.citations[start : start + RUN])
    for start in range(0, len(composition.audit), RUN):
        yield "audit", row_items(composition.audit[start : start + RUN])


def encoded_end(
    composition: Composition, audit: EncodedAudit, max_bytes: int = MAX_MESSAGE_BYTES, *, beside_completed: int = 0
) -> bytes:
    """The end of a composition, encoded as a part of its own; joined to another one it is the end of that.

    One that would be larger than a message may be is cut to fit, where it is least missed: the caller's own long lists
    in the strategy's record, then what lanes said of their ends.

    Args:
        composition: The composition.
        audit: Its summary and usage.
        max_bytes: Bytes of one message.
        beside_completed: Bytes of the message that are not for ``Completed``.
    """
    end = composition_pb2.Completed(
        composition_id=composition.composition_id,
        preamble=composition.preamble,
        closing=composition.closing,
        separator=composition.separator,
        audit_state=_STATES[composition.audit_state],
    )
    data = end.SerializeToString() + _SUMMARY.message(audit.summary) + _USAGE.message(audit.usage)
    room = max_bytes - HEADROOM - beside_completed
    return _PART["completed"].message(data if len(data) <= room else _shortened_end(data, room))


def response_of(part: bytes) -> bytes:
    """An encoded part as a message of the answer."""
    return _RESPONSE.message(part)


class CompositionReader:
    """Rebuilds a composition from its parts, in the order in which they come.

    Args:
        request_id: The request's name, where no ``Accepted`` comes that says it.
    """

    def __init__(self, request_id: str = "") -> None:
        self._request_id = request_id
        self._placed: list[Placed] = []
        self._citations: list[Citation] = []
        self._rows: list[composition_pb2.AuditRow] = []
        self._completed: composition_pb2.Completed | None = None

    def take(self, message: pb.ComposeResponse) -> tuple[Placed, ...]:
        """Takes one message of an answer; of what it does not need, nothing.

        Returns:
            The placed frames that the message brought.

        Raises:
            Internal: A message follows the last part (``ANSWER_BROKEN``).
        """
        if message.HasField("accepted"):
            self._request_id = read_accepted(message.accepted).request_id
        # One that has no part breaks an answer, too, once that has ended.
        return self.take_part(message.part)

    def take_part(self, part: composition_pb2.Part) -> tuple[Placed, ...]:
        """Takes one part.

        Returns:
            The placed frames that the part brought.

        Raises:
            Internal: It follows the last one (``ANSWER_BROKEN``).
        """
        if self._completed is not None:
            raise _broken("a message follows its end")
        brought = tuple(map(placed_value, part.placed))
        self._placed.extend(brought)
        self._citations.extend(map(citation_value, part.citations))
        self._rows.extend(part.audit)
        if part.HasField("completed"):
            self._completed = part.completed
        return brought

    def result(self) -> Composition:
        """The whole composition.

        Raises:
            Internal: ``Completed`` did not come, or more or less came than it says (``ANSWER_BROKEN``).
        """
        end = self._completed
        if end is None:
            raise _broken("it ended without Completed")
        summary = read_summary(end.summary)
        if len(self._rows) != summary.rows:
            raise _broken(f"{len(self._rows)} audit rows came, and {summary.rows} were sent")
        if any(placed.total != len(self._placed) for placed in self._placed):
            raise _broken(f"{len(self._placed)} placed frames came, and {self._placed[0].total} were sent")
        return Composition(
            placed=tuple(self._placed),
            citations=tuple(self._citations),
            audit=tuple(map(read_row, self._rows)),
            summary=summary,
            usage=read_usage(end.usage),
            preamble=end.preamble,
            closing=end.closing,
            separator=end.separator,
            composition_id=end.composition_id,
            request_id=self._request_id,
            audit_state=AuditState(
                composition_pb2.AuditState.Name(end.audit_state).removeprefix("AUDIT_STATE_")
                if end.audit_state in composition_pb2.AuditState.values()
                else "UNSPECIFIED"
            ),
        )


def placed_value(message: composition_pb2.Placed) -> Placed:
    """A placed frame as a value."""
    return Placed(
        position=message.position,
        total=message.total,
        provider=message.provider_id,
        local_rank=message.local_rank,
        rank=message.rank,
        frame=frame_value(message.frame),
        rendered=message.rendered,
        cost=message.cost,
        citation_label=message.citation_label,
        vouchers=tuple(map(ref_value, message.vouchers)),
    )


def citation_value(message: composition_pb2.Citation) -> Citation:
    """A citation as a value."""
    return Citation(message.label, ref_value(message.frame), message.position, message.content_digest)


def _shortened(item: str, room: int) -> str:
    """A part's placed frame, cut to so many bytes. The kept copy's own provenance comes first and goes last."""
    part = composition_pb2.Part.FromString(as_bytes(item))
    placed = part.placed[0]
    for entries in (placed.frame.provenance, placed.vouchers):
        _shorten(placed, entries, room)
    return part.SerializeToString(deterministic=True).decode("latin-1")


def _shorten(message: Message, entries: Any, room: int) -> None:
    excess = message.ByteSize() - room
    keep = len(entries)
    while excess > 0 and keep > 1:
        keep -= 1
        excess -= entries[keep].ByteSize()
    del entries[keep:]


def _shortened_end(data: bytes, room: int) -> bytes:
    end = composition_pb2.Completed.FromString(data)
    _cut_params(end)
    if end.ByteSize() > room:
        _cut_messages(end)
    return end.SerializeToString(deterministic=True)


def _cut_params(end: composition_pb2.Completed) -> None:
    params = end.summary.strategy.params.fields
    for value in params.values():
        if value.HasField("list_value"):
            value.string_value = f"{len(value.list_value.values)} entries, left out for their size"


def _cut_messages(end: composition_pb2.Completed) -> None:
    for lane in end.summary.lanes:
        lane.message = lane.message[:32]


def _broken(what: str) -> Internal:
    return Internal("ANSWER_BROKEN", f"the answer is broken: {what}; ask again, and see the broker's log")
