"""A composition as the messages that stream it, none above 512 KiB, and back.

The order is: placed frames in prompt order, citations, audit rows, and one ``Completed``, which is last so that a
stream that was cut is never taken for a whole one. What :class:`CompositionReader` rebuilds equals what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import Message

from broker.core.composition import AuditState, Citation, Composition, Placed
from broker.errors import Internal
from broker.wire.audits import read_row, read_summary, read_usage, row_message, summary_message, usage_message
from broker.wire.frames import frame_message, frame_value, ref_message, ref_value
from broker.wire.updates import read_accepted

MAX_MESSAGE_BYTES = 512 * 1024
"""Bytes of one message, at most."""

FILL_BYTES = 128 * 1024
"""Bytes that a message is filled to: larger ones hardly travel faster, and a reader that stalls keeps one waiting."""

HEADROOM = 64
"""Bytes that a batch's own tags and lengths take, and then some."""

ITEM_TAG = 6
"""Bytes of one item's tag and length inside its batch, at most."""

Item = TypeVar("Item", bound=Message)


def composition_messages(
    composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES, *, beside_completed: int = 0
) -> Iterator[pb.ComposeResponse]:
    """The messages of a composition, made one by one as they are asked for.

    A frame or a summary that would be larger than a message may be is cut to fit, where it is least missed: provenance
    that other copies lent a frame, then vouchers; the caller's own long lists in the strategy's record, then what lanes
    said of their ends.

    Args:
        composition: The composition.
        max_bytes: Bytes of one message, at least 512 KiB for every frame that the core lets pass to fit uncut. It is
            filled up to :data:`FILL_BYTES` where that is less, and further only by one item that is larger.
        beside_completed: Bytes of the last message that are not for ``Completed``.
    """
    yield from body_messages(composition, max_bytes)
    yield end_message(composition, max_bytes, beside_completed=beside_completed)


def body_messages(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[pb.ComposeResponse]:
    """The messages of :func:`composition_messages` but the last."""
    room = max_bytes - HEADROOM
    fill = min(room, FILL_BYTES)
    placed = (fitted(placed_message(item), room) for item in composition.placed)
    for placed_batch in _batches(placed, fill):
        yield pb.ComposeResponse(placed=pb.PlacedBatch(placed=placed_batch))
    for citation_batch in _batches(map(citation_message, composition.citations), fill):
        yield pb.ComposeResponse(citations=pb.CitationBatch(citations=citation_batch))
    for row_batch in _batches(map(row_message, composition.audit), fill):
        yield pb.ComposeResponse(audit=pb.AuditBatch(rows=row_batch))


def end_message(
    composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES, *, beside_completed: int = 0
) -> pb.ComposeResponse:
    """The last message of :func:`composition_messages`."""
    room = max_bytes - HEADROOM - beside_completed
    return pb.ComposeResponse(completed=_fitted_end(completed_message(composition), room))


class CompositionReader:
    """Rebuilds a composition from the messages of one answer, in the order in which they come.

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
        """Takes one message; of a kind that it does not need, nothing.

        Returns:
            The placed frames that the message brought.

        Raises:
            Internal: A message follows ``Completed`` (``ANSWER_BROKEN``).
        """
        if self._completed is not None:
            raise _broken("a message follows its end")
        match message.WhichOneof("message"):
            case "accepted":
                self._request_id = read_accepted(message.accepted).request_id
            case "placed":
                brought = tuple(map(placed_value, message.placed.placed))
                self._placed.extend(brought)
                return brought
            case "citations":
                self._citations.extend(map(citation_value, message.citations.citations))
            case "audit":
                self._rows.extend(message.audit.rows)
            case "completed":
                self._completed = message.completed
        return ()

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


def placed_message(placed: Placed) -> composition_pb2.Placed:
    """A placed frame as a message."""
    return composition_pb2.Placed(
        position=placed.position,
        total=placed.total,
        provider_id=placed.provider,
        local_rank=placed.local_rank,
        rank=placed.rank,
        frame=frame_message(placed.frame),
        rendered=placed.rendered,
        cost=placed.cost,
        citation_label=placed.citation_label,
        vouchers=map(ref_message, placed.vouchers),
    )


def placed_value(message: composition_pb2.Placed) -> Placed:
    """The inverse of :func:`placed_message`."""
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


def citation_message(citation: Citation) -> composition_pb2.Citation:
    """A citation as a message."""
    return composition_pb2.Citation(
        label=citation.label,
        frame=ref_message(citation.frame),
        position=citation.position,
        content_digest=citation.content_digest,
    )


def citation_value(message: composition_pb2.Citation) -> Citation:
    """The inverse of :func:`citation_message`."""
    return Citation(message.label, ref_value(message.frame), message.position, message.content_digest)


def completed_message(composition: Composition) -> composition_pb2.Completed:
    """The end of a composition, whatever its size."""
    return composition_pb2.Completed(
        composition_id=composition.composition_id,
        summary=summary_message(composition.summary),
        usage=usage_message(composition.usage),
        preamble=composition.preamble,
        closing=composition.closing,
        separator=composition.separator,
        audit_state=composition_pb2.AuditState.Value(f"AUDIT_STATE_{composition.audit_state.value}"),
    )


def _batches(items: Iterable[Item], room: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        weight = item.ByteSize() + ITEM_TAG
        if batch and size + weight > room:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        yield batch


def fitted(placed: composition_pb2.Placed, room: int) -> composition_pb2.Placed:
    """The placed frame, cut to what one message holds. The kept copy's own provenance comes first and goes last."""
    for entries in (placed.frame.provenance, placed.vouchers):
        _shorten(placed, entries, room - ITEM_TAG)
    return placed


def _shorten(message: Message, entries: Any, room: int) -> None:
    excess = message.ByteSize() - room
    keep = len(entries)
    while excess > 0 and keep > 1:
        keep -= 1
        excess -= entries[keep].ByteSize()
    del entries[keep:]


def _fitted_end(end: composition_pb2.Completed, room: int) -> composition_pb2.Completed:
    cuts: tuple[Callable[[composition_pb2.Completed], None], ...] = (_cut_params, _cut_messages)
    for cut in cuts:
        if end.ByteSize() <= room:
            break
        cut(end)
    return end


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
