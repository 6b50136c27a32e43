"""What is encoded field by field is, byte for byte, what the messages serialize to."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.internal.encoder import _VarintBytes
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import INCLUDED, Reason
from broker.core.composition import Composition
from broker.core.frames import Frame, Provenance
from broker.wire.compositions import MAX_MESSAGE_BYTES, encoded_parts
from broker.wire.encoded import frame_bytes, row_bytes, varint
from broker.wire.encoded_audits import encoded_audit
from broker.wire.frames import frame_message
from tests.wire import by_messages, values
from tests.wire.test_compositions import block, made

REASONS = [INCLUDED, *(name for name in vars(Reason) if name.isupper())]

frames = st.builds(
    Frame,
    id=values.texts,
    title=values.texts,
    content=values.texts | st.text(st.characters(exclude_categories=("Cs",)), min_size=100, max_size=200),
    score=st.none() | st.floats(),
    kind=values.kinds,
    citation_label=values.texts,
    uri=values.texts,
    provenance=values.tuples(st.builds(Provenance, *[values.texts] * 6)),
    token_cost=st.none() | st.integers(0, 2**32 - 1),
    content_digest=values.texts,
)


def same_by_either_way(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> bool:
    messages = list(by_messages.parts(composition, max_bytes))
    parts = list(encoded_parts(composition, max_bytes))
    return [part.joined() for part in parts] == [serialized(message) for message in messages] and [
        part.response() for part in parts
    ] == [serialized(pb.ComposeResponse(part=message)) for message in messages]


def serialized(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


@given(values.compositions(), st.integers(200, 2000))
def test_a_composition_is_the_same_by_either_way(composition: Composition, max_bytes: int):
    assert same_by_either_way(composition)
    assert same_by_either_way(composition, max_bytes)


@given(values.compositions(), st.dictionaries(st.sampled_from(REASONS), values.uint32))
def test_what_an_audit_says_beside_its_rows_is_the_same_by_either_way(
    composition: Composition, reasons: dict[str, int]
):
    summary = replace(composition.summary, reasons=reasons)
    audit = encoded_audit(summary, composition.usage)
    assert audit.summary == serialized(by_messages.summary_message(summary))
    assert audit.usage == serialized(by_messages.usage_message(composition.usage))


@given(values.rows)
def test_a_row_is_the_same_by_either_way(row):
    assert list(row_bytes([row])) == [serialized(by_messages.row_message(row))]


@given(frames | values.frames)
def test_a_frame_is_the_same_by_either_way(frame: Frame):
    assert frame_bytes(frame) == serialized(frame_message(frame))


@pytest.mark.parametrize("kind", ["unspecified", "kind-8", "kind--1", "kind--2147483648"])
def test_kinds_of_other_versions_too(kind: str):
    frame = Frame("f", "t", "c", kind=kind)
    assert frame_bytes(frame) == serialized(frame_message(frame))


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 500, 5_000, 70_000, 190_000]), max_size=12), st.integers(1, 3000))
def test_messages_are_filled_and_cut_alike(sizes: list[int], vouchers: int):
    placed = tuple(
        block(place, len(sizes), content=size, rendered=size, lent=place * 90, vouchers=vouchers)
        for place, size in enumerate(sizes, 1)
    )
    assert same_by_either_way(made(placed, rows=3000, citations=2000))


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_is_written_as_protobuf_writes_it(number: int):
    assert varint(number) == _VarintBytes(number & 2**64 - 1)
