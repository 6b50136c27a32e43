"""What is encoded field by field is, byte for byte, what the messages serialize to."""

from __future__ import annotations

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.composition import Composition
from broker.core.frames import Frame, Provenance
from broker.wire.audits import row_message
from broker.wire.compositions import MAX_MESSAGE_BYTES, body_messages
from broker.wire.encoded import encoded_body, frame_bytes, row_bytes, varint
from broker.wire.frames import frame_message
from tests.wire import values
from tests.wire.test_compositions import block, made

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


def by_messages(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> list[tuple[str | None, bytes]]:
    return [
        (message.WhichOneof("message"), message.SerializeToString(deterministic=True))
        for message in body_messages(composition, max_bytes)
    ]


@given(values.compositions(), st.integers(200, 2000))
def test_a_composition_is_the_same_by_either_way(composition: Composition, max_bytes: int):
    assert list(encoded_body(composition)) == by_messages(composition)
    assert list(encoded_body(composition, max_bytes)) == by_messages(composition, max_bytes)


@given(values.rows)
def test_a_row_is_the_same_by_either_way(row):
    assert row_bytes(row) == row_message(row).SerializeToString(deterministic=True)


@given(frames | values.frames)
def test_a_frame_is_the_same_by_either_way(frame: Frame):
    assert frame_bytes(frame) == frame_message(frame).SerializeToString(deterministic=True)


@pytest.mark.parametrize("kind", ["unspecified", "kind-8", "kind--1", "kind--2147483648"])
def test_kinds_of_other_versions_too(kind: str):
    frame = Frame("f", "t", "c", kind=kind)
    assert frame_bytes(frame) == frame_message(frame).SerializeToString(deterministic=True)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 500, 5_000, 70_000, 190_000]), max_size=12), st.integers(1, 3000))
def test_messages_are_filled_and_cut_alike(sizes: list[int], vouchers: int):
    placed = tuple(
        block(place, len(sizes), content=size, rendered=size, lent=place * 90, vouchers=vouchers)
        for place, size in enumerate(sizes, 1)
    )
    composition = made(placed, rows=3000, citations=2000)
    assert list(encoded_body(composition)) == by_messages(composition)


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_is_written_as_protobuf_writes_it(number: int):
    assert varint(number) == _VarintBytes(number & 2**64 - 1)
