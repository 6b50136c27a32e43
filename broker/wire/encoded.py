"""What a composition has many of, as bytes at once: placed frames, citations and audit rows.

Field by field, in the order of their numbers: the very bytes that :func:`~broker.wire.compositions.body_messages`
serializes to, which a test holds them to, in half the time that it takes by way of messages. Tags come from the
contract.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import context_service_pb2, frame_pb2, strategy_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from broker.core.audited import AuditRow
from broker.core.composition import Citation, Composition, Placed
from broker.core.frames import KINDS, Frame, FrameRef, Provenance
from broker.wire.compositions import FILL_BYTES, HEADROOM, ITEM_TAG, MAX_MESSAGE_BYTES, fitted, placed_message
from broker.wire.frames import kind_number

_DOUBLE = struct.Struct("<d").pack


def varint(value: int) -> bytes:
    """A number of at most 64 bits, seven to a byte; a negative one as its two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(map(varint, range(4096)))
"""The numbers that are met most."""

_WIRE_TYPES = {FieldDescriptor.CPPTYPE_DOUBLE: 1, FieldDescriptor.CPPTYPE_STRING: 2, FieldDescriptor.CPPTYPE_MESSAGE: 2}


def _tags(message: Descriptor) -> list[bytes]:
    """What stands before each field, in the order of their numbers."""
    fields = sorted(message.fields, key=lambda field: field.number)
    return [varint(field.number << 3 | _WIRE_TYPES.get(field.cpp_type, 0)) for field in fields]


_PLACED = _tags(pb.Placed.DESCRIPTOR)
_CITATION = _tags(pb.Citation.DESCRIPTOR)
_ROW = _tags(pb.AuditRow.DESCRIPTOR)
_SCORE = _tags(pb.AuditScore.DESCRIPTOR)
_FRAME = _tags(frame_pb2.Frame.DESCRIPTOR)
_STEP = _tags(frame_pb2.Provenance.DESCRIPTOR)
_TIE = _tags(frame_pb2.Relation.DESCRIPTOR)
_REF = _tags(strategy_pb2.FrameRef.DESCRIPTOR)


def part(tag: bytes, data: bytes) -> bytes:
    """A message or bytes as a field."""
    size = len(data)
    return tag + (_SMALL[size] if size < 4096 else varint(size)) + data


def _text(tag: bytes, value: str) -> bytes:
    return part(tag, value.encode()) if value else b""


def _number(tag: bytes, value: int) -> bytes:
    return (tag + (_SMALL[value] if 0 < value < 4096 else varint(value))) if value else b""


_KINDS = {kind: _number(_FRAME[1], number) for number, kind in enumerate(KINDS)}

_PARTS = context_service_pb2.ComposeResponse.DESCRIPTOR.fields_by_name
_ITEM = varint(1 << 3 | 2)
"""What stands before each item of a batch: all three kinds of batch have theirs at number 1."""


def encoded_body(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[tuple[str, bytes]]:
    """The messages of :func:`~broker.wire.compositions.body_messages`, encoded, each with the name of its kind."""
    room = max_bytes - HEADROOM
    for kind, items in (
        ("placed", (_fitting(placed, room) for placed in composition.placed)),
        ("citations", map(citation_bytes, composition.citations)),
        ("audit", map(row_bytes, composition.audit)),
    ):
        tag = varint(_PARTS[kind].number << 3 | 2)
        for batch in _batches(items, min(room, FILL_BYTES)):
            yield kind, part(tag, b"".join(batch))


def _fitting(placed: Placed, room: int) -> bytes:
    data = placed_bytes(placed)
    return data if len(data) <= room - ITEM_TAG else fitted(placed_message(placed), room).SerializeToString()


def _batches(items: Iterable[bytes], room: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for item in items:
        weight = len(item) + ITEM_TAG
        if batch and size + weight > room:
            yield batch
            batch, size = [], 0
        batch.append(part(_ITEM, item))
        size += weight
    if batch:
        yield batch


def placed_bytes(placed: Placed) -> bytes:
    """A placed frame, encoded."""
    position, total, provider, local_rank, rank, frame, rendered, cost, label, vouchers = _PLACED
    return b"".join(
        (
            _number(position, placed.position),
            _number(total, placed.total),
            _text(provider, placed.provider),
            _number(local_rank, placed.local_rank),
            _number(rank, placed.rank),
            part(frame, frame_bytes(placed.frame)),
            _text(rendered, placed.rendered),
            _number(cost, placed.cost),
            _text(label, placed.citation_label),
            _refs(vouchers, placed.vouchers),
        )
    )


def citation_bytes(citation: Citation) -> bytes:
    """A citation, encoded."""
    label, frame, position, digest = _CITATION
    return b"".join(
        (
            _text(label, citation.label),
            part(frame, _ref(citation.frame)),
            _number(position, citation.position),
            _text(digest, citation.content_digest),
        )
    )


def row_bytes(row: AuditRow) -> bytes:
    """An audit row, encoded."""
    return b"".join(
        (
            _text(_ROW[0], row.provider),
            _text(_ROW[1], row.frame_id),
            _text(_ROW[2], row.content_digest),
            _number(_ROW[3], pb.FATE_INCLUDED if row.included else pb.FATE_EXCLUDED),
            _text(_ROW[4], row.reason),
            _text(_ROW[5], row.detail),
            _number(_ROW[6], row.lane_place),
            _number(_ROW[7], row.local_rank),
            _number(_ROW[8], row.rank),
            _number(_ROW[9], row.position),
            _number(_ROW[10], row.cost),
            _number(_ROW[11], row.remaining),
            b"" if row.duplicate_of is None else part(_ROW[12], _ref(row.duplicate_of)),
            _refs(_ROW[13], row.conflicts) if row.conflicts else b"",
            b"" if row.score is None else part(_ROW[14], _score(row)),
            _number(_ROW[15], row.escaped_characters),
            _number(_ROW[16], row.neutralised_fences),
            _number(_ROW[17], row.prior_rank),
            _text(_ROW[18], row.rerank_score),
            _number(_ROW[19], row.role_tokens),
            _number(_ROW[20], row.tokens),
            _number(_ROW[21], row.admitted),
            _text(_ROW[22], row.recorded_at),
        )
    )


def frame_bytes(frame: Frame) -> bytes:
    """A frame that the core has passed, encoded; see :func:`~broker.wire.frames.frame_message`."""
    return b"".join(
        (
            _text(_FRAME[0], frame.id),
            _KINDS[frame.kind] if frame.kind in _KINDS else _number(_FRAME[1], kind_number(frame.kind)),
            _text(_FRAME[2], frame.title),
            _text(_FRAME[3], frame.content),
            b"" if frame.score is None else _FRAME[4] + _DOUBLE(frame.score),
            b"" if frame.token_cost is None else _FRAME[5] + varint(frame.token_cost),
            _text(_FRAME[6], frame.citation_label),
            _text(_FRAME[7], frame.content_digest),
            _text(_FRAME[8], frame.uri),
            *[part(_FRAME[9], _step(step)) for step in frame.provenance],
            *[part(_FRAME[10], _texts(_TIE, (tie.rel, tie.target_uri, tie.display_name))) for tie in frame.relations],
            _text(_FRAME[11], frame.valid_from),
            _text(_FRAME[12], frame.valid_to),
            _text(_FRAME[13], frame.recorded_at),
        )
    )


def _step(step: Provenance) -> bytes:
    return _texts(_STEP, (step.type, step.uri, step.range, step.digest, step.method, step.by))


def _ref(ref: FrameRef) -> bytes:
    return _text(_REF[0], ref.provider) + _text(_REF[1], ref.frame_id)


def _refs(tag: bytes, refs: Iterable[FrameRef]) -> bytes:
    return b"".join([part(tag, _ref(ref)) for ref in refs])


def _score(row: AuditRow) -> bytes:
    score = row.score
    assert score is not None
    return _texts(_SCORE, (score.provider, score.scale_id, score.value, score.floor))


def _texts(tags: Iterable[bytes], values: Iterable[str]) -> bytes:
    return b"".join([_text(tag, value) for tag, value in zip(tags, values, strict=True)])
