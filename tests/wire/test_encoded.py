"""What is encoded field by field is, byte for byte, what the messages serialize to."""

from __future__ import annotations

import pytest
from contextbroker.v1 import composition_pb2 as pb
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import AuditRow
from broker.core.composition import Composition
from broker.core.frames import Frame, Provenance
from broker.wire.compositions import MAX_MESSAGE_BYTES, encoded_parts
from broker.wire.encoded import encoded_frames, row_items
from broker.wire.fields import as_bytes
from broker.wire.frames import frame_message
from tests.wire import by_messages, values
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

NONE = AuditRow("a", "", "", included=False)
"""A row of which every field that may be absent is."""


@st.composite
def rows(draw: st.DrawFn) -> AuditRow:
    """Rows that have some fields alone: most have few."""
    full = draw(values.rows)
    kept = draw(st.sets(st.sampled_from(AuditRow.__struct_fields__), max_size=3))
    return replace(NONE, **{name: getattr(full, name) for name in kept})


def same_by_either_way(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> bool:
    parts = [part.joined() for part in encoded_parts(composition, max_bytes)]
    return parts == list(map(serialized, by_messages.parts(composition, max_bytes)))


def serialized(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


@given(values.compositions(), st.integers(200, 2000))
def test_a_composition_is_the_same_by_either_way(composition: Composition, max_bytes: int):
    assert same_by_either_way(composition)
    assert same_by_either_way(composition, max_bytes)


@given(st.lists(rows() | values.rows, max_size=4))
def test_rows_are_the_same_by_either_way(offered: list[AuditRow]):
    messages = [pb.Part(audit=[by_messages.row_message(row)]) for row in offered]
    assert list(map(as_bytes, row_items(offered))) == list(map(serialized, messages))


def whole(frame: Frame) -> bytes:
    (pieces,) = encoded_frames([frame])
    return as_bytes("".join(pieces))


@given(frames | values.frames)
def test_a_frame_is_the_same_by_either_way(frame: Frame):
    assert whole(frame) == serialized(frame_message(frame))


@pytest.mark.parametrize("kind", ["unspecified", "kind-8", "kind--1", "kind--2147483648"])
def test_kinds_of_other_versions_too(kind: str):
    frame = Frame("f", "t", "c", kind=kind)
    assert whole(frame) == serialized(frame_message(frame))


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 500, 5_000, 70_000, 190_000]), max_size=12), st.integers(1, 3000))
def test_messages_are_filled_and_cut_alike(sizes: list[int], vouchers: int):
    placed = tuple(
        block(place, len(sizes), content=size, rendered=size, lent=place * 90, vouchers=vouchers)
        for place, size in enumerate(sizes, 1)
    )
    assert same_by_either_way(made(placed, rows=3000, citations=2000))
