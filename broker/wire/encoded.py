"""Placed frames, citations and audit rows as bytes, without messages in between.

Field by field, in the order of their numbers: the very bytes that the contract's messages serialize to, which a test
holds them to, in a third of the time. Tags come from the contract.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import frame_pb2, strategy_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from broker.core.audited import AuditRow, AuditScore
from broker.core.composition import Citation, Placed
from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation
from broker.wire.frames import kind_number

_double = struct.Struct("<d").pack
_ZERO = _double(0.0)
_join = b"".join


def varint(value: int) -> bytes:
    """A number of at most 64 bits, seven to a byte; a negative one as its two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_REMEMBERED = 4096
"""Numbers below this are encoded once."""


class Field(dict[int, bytes]):
    """A field's bytes by its value, where that is a number; of a text or a message what stands before it, by its size.

    Of a value that the contract's messages leave out, such as an empty text, these are none.

    Attributes:
        tag: The field's number and how it is encoded.
    """

    def __init__(self, field: FieldDescriptor) -> None:
        wire_type = {FieldDescriptor.CPPTYPE_DOUBLE: 1, FieldDescriptor.CPPTYPE_STRING: 2}.get(field.cpp_type, 0)
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            wire_type = 2
        self.tag = varint(field.number << 3 | wire_type)
        if not field.has_presence and not field.is_repeated:
            self[0] = b""

    def __missing__(self, value: int) -> bytes:
        data = self.tag + varint(value)
        if 0 <= value < _REMEMBERED:
            self[value] = data
        return data

    def text(self, value: str) -> bytes:
        """A text of this field."""
        data = value.encode()
        return self[len(data)] + data

    def double(self, value: float) -> bytes:
        """A double of this field, which leaves out a zero (that has no sign)."""
        data = _double(value)
        return self.tag + data if data != _ZERO else b""

    def message(self, data: bytes) -> bytes:
        """An encoded message of this field."""
        return self[len(data)] + data


def fields_of(message: Descriptor) -> list[Field]:
    """A message's fields, in the order of their numbers."""
    return [Field(field) for field in sorted(message.fields, key=lambda field: field.number)]


_PLACED = fields_of(pb.Placed.DESCRIPTOR)
_CITATION = fields_of(pb.Citation.DESCRIPTOR)
_ROW = fields_of(pb.AuditRow.DESCRIPTOR)
_SCORE = fields_of(pb.AuditScore.DESCRIPTOR)
_FRAME = fields_of(frame_pb2.Frame.DESCRIPTOR)
_STEP = fields_of(frame_pb2.Provenance.DESCRIPTOR)
_TIE = fields_of(frame_pb2.Relation.DESCRIPTOR)
_REF = fields_of(strategy_pb2.FrameRef.DESCRIPTOR)

_KINDS = {name: _FRAME[1][number] for number, name in enumerate(KINDS)}
_FATES = {True: _ROW[3][pb.FATE_INCLUDED], False: _ROW[3][pb.FATE_EXCLUDED]}


def placed_bytes(items: Iterable[Placed]) -> Iterator[bytes]:
    """Placed frames, each encoded."""
    position, total, provider, local_rank, rank, frame, rendered, cost, citation_label, vouchers = _PLACED
    for item in items:
        name, evidence = item.provider.encode(), frame_bytes(item.frame)
        block, label = item.rendered.encode(), item.citation_label.encode()
        pieces = [
            position[item.position],
            total[item.total],
            provider[len(name)],
            name,
            local_rank[item.local_rank],
            rank[item.rank],
            frame[len(evidence)],
            evidence,
            rendered[len(block)],
            block,
            cost[item.cost],
            citation_label[len(label)],
            label,
        ]
        for ref in item.vouchers:
            voucher = _ref(ref)
            pieces += (vouchers[len(voucher)], voucher)
        yield _join(pieces)


def citation_bytes(items: Iterable[Citation]) -> Iterator[bytes]:
    """Citations, each encoded."""
    label, frame, position, content_digest = _CITATION
    for item in items:
        name, ref, digest = item.label.encode(), _ref(item.frame), item.content_digest.encode()
        yield _join(
            (
                label[len(name)],
                name,
                frame[len(ref)],
                ref,
                position[item.position],
                content_digest[len(digest)],
                digest,
            )
        )


def row_bytes(items: Iterable[AuditRow]) -> Iterator[bytes]:
    """Audit rows, each encoded."""
    (
        provider,
        frame_id,
        content_digest,
        _,
        reason,
        detail,
        lane_place,
        local_rank,
        rank,
        position,
        cost,
        remaining,
        duplicate_of,
        conflicts,
        score,
        escaped_characters,
        neutralised_fences,
        prior_rank,
        rerank_score,
        role_tokens,
        tokens,
        admitted,
        recorded_at,
    ) = _ROW
    for item in items:
        name, frame, digest = item.provider.encode(), item.frame_id.encode(), item.content_digest.encode()
        pieces = [
            provider[len(name)],
            name,
            frame_id[len(frame)],
            frame,
            content_digest[len(digest)],
            digest,
            _FATES[item.included],
        ]
        if item.reason:
            pieces.append(reason.text(item.reason))
        if item.detail:
            pieces.append(detail.text(item.detail))
        pieces += (
            lane_place[item.lane_place],
            local_rank[item.local_rank],
            rank[item.rank],
            position[item.position],
            cost[item.cost],
        )
        if item.remaining:
            pieces.append(remaining[item.remaining])
        if item.duplicate_of is not None:
            pieces.append(duplicate_of.message(_ref(item.duplicate_of)))
        if item.conflicts:
            pieces += [conflicts.message(_ref(ref)) for ref in item.conflicts]
        if item.score is not None:
            pieces.append(score.message(_score(item.score)))
        if item.escaped_characters:
            pieces.append(escaped_characters[item.escaped_characters])
        if item.neutralised_fences:
            pieces.append(neutralised_fences[item.neutralised_fences])
        if item.prior_rank:
            pieces.append(prior_rank[item.prior_rank])
        if item.rerank_score:
            pieces.append(rerank_score.text(item.rerank_score))
        if item.role_tokens:
            pieces.append(role_tokens[item.role_tokens])
        pieces += (tokens[item.tokens], admitted[item.admitted])
        if item.recorded_at:
            pieces.append(recorded_at.text(item.recorded_at))
        yield _join(pieces)


def frame_bytes(item: Frame) -> bytes:
    """A frame that the core has passed, encoded; see :func:`~broker.wire.frames.frame_message`."""
    (
        frame_id,
        kind,
        title,
        content,
        score,
        token_cost,
        citation_label,
        content_digest,
        uri,
        provenance,
        relations,
        valid_from,
        valid_to,
        recorded_at,
    ) = _FRAME
    name, heading, evidence = item.id.encode(), item.title.encode(), item.content.encode()
    label, digest, place = item.citation_label.encode(), item.content_digest.encode(), item.uri.encode()
    pieces = [
        frame_id[len(name)],
        name,
        _KINDS[item.kind] if item.kind in _KINDS else kind[kind_number(item.kind)],
        title[len(heading)],
        heading,
        content[len(evidence)],
        evidence,
    ]
    if item.score is not None:
        pieces += (score.tag, _double(item.score))
    if item.token_cost is not None:
        pieces.append(token_cost[item.token_cost])
    pieces += (
        citation_label[len(label)],
        label,
        content_digest[len(digest)],
        digest,
        uri[len(place)],
        place,
    )
    for step in item.provenance:
        data = _step(step)
        pieces += (provenance[len(data)], data)
    if item.relations:
        pieces += [relations.message(_tie(tie)) for tie in item.relations]
    if item.valid_from:
        pieces.append(valid_from.text(item.valid_from))
    if item.valid_to:
        pieces.append(valid_to.text(item.valid_to))
    if item.recorded_at:
        pieces.append(recorded_at.text(item.recorded_at))
    return _join(pieces)


def _ref(item: FrameRef) -> bytes:
    provider, frame_id = _REF
    name, frame = item.provider.encode(), item.frame_id.encode()
    return _join((provider[len(name)], name, frame_id[len(frame)], frame))


def _step(item: Provenance) -> bytes:
    step_type, uri, region, digest, method, by = _STEP
    name, place, lines = item.type.encode(), item.uri.encode(), item.range.encode()
    pieces = [step_type[len(name)], name, uri[len(place)], place, region[len(lines)], lines]
    if item.digest:
        pieces.append(digest.text(item.digest))
    if item.method:
        pieces.append(method.text(item.method))
    if item.by:
        pieces.append(by.text(item.by))
    return _join(pieces)


def _tie(item: Relation) -> bytes:
    rel, target_uri, display_name = _TIE
    return rel.text(item.rel) + target_uri.text(item.target_uri) + display_name.text(item.display_name)


def _score(item: AuditScore) -> bytes:
    provider, scale_id, value, floor = _SCORE
    return provider.text(item.provider) + scale_id.text(item.scale_id) + value.text(item.value) + floor.text(item.floor)
