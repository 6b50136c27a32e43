"""A batch is counted, cut and joined as bytes; what comes out parses to what went in."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import provider_service_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InvalidArgument
from broker.wire.batches import (
    batch_query_id,
    batch_size,
    counted,
    inline_counts,
    join_batch,
    join_push,
    push_as_batch,
    report_size,
    split_batch,
    split_inline_lanes,
)
from broker.wire.requests import ComposeCall, compose_request
from tests.wire import values

blobs = st.lists(st.binary(max_size=20), max_size=5)


@given(values.texts, blobs)
def test_a_batch_cut_apart_is_what_was_joined(query_id: str, frames: list[bytes]):
    data = join_batch(query_id, frames)
    assert (batch_query_id(data), batch_size(data), split_batch(data)) == (query_id, len(frames), frames)


@given(blobs)
def test_a_push_reads_like_a_batch_without_a_query(frames: list[bytes]):
    assert push_as_batch(join_push(frames)) == join_batch("", frames)


def test_frames_that_do_not_parse_are_cut_out_all_the_same():
    assert split_batch(join_batch("q", [b"\xff", b"", b"\x0a\x01i"])) == [b"\xff", b"", b"\x0a\x01i"]


def test_a_message_full_of_empty_frames_is_counted():
    assert batch_size(b"\x12\x00" * 500_000) == 500_000
    assert inline_counts(b"\x52\x04\x1a\x00\x1a\x00" * 100, stop_at=256) == (100, 200)
    assert inline_counts(b"\x52\x00" * 500_000, stop_at=256) == (500_000, 0)


@given(values.texts, blobs, st.integers(0, 6))
def test_counting_without_taking_apart_finds_as_many(query_id: str, frames: list[bytes], stop_at: int):
    data = b"\x18\x96\x01\x21" + bytes(8) + b"\x2d" + bytes(4) + join_batch(query_id, frames)
    assert counted(data, 2, stop_at) == min(len(frames), stop_at + 1)


@given(st.binary(max_size=40))
def test_whatever_comes_is_counted_and_what_parses_is_counted_right(data: bytes):
    found = counted(data, 2, 100)
    try:
        assert found == batch_size(data)
    except InvalidArgument:
        assert 0 <= found <= len(data)


def test_a_count_stops_where_there_are_too_many():
    assert counted(b"\x12\x00" * 500_000, 2, 64) == 65
    assert report_size(b"\x12\x00" * 500_000) == 500_000


@pytest.mark.parametrize("read", [batch_query_id, batch_size, split_batch])
@pytest.mark.parametrize("data", [b"\x12\x05a", b"\x0a\x01\xff", b"\x00"])
def test_bytes_that_are_no_batch_are_refused(read, data: bytes):
    with pytest.raises(InvalidArgument) as error:
        read(data)
    assert error.value.reason == "MALFORMED"
    assert "FrameBatch" in error.value.message


def test_other_bytes_are_refused_by_their_own_names():
    for read, name in ((push_as_batch, "PushBatch"), (split_inline_lanes, "ComposeRequest")):
        with pytest.raises(InvalidArgument, match=name):
            read(b"\x0a\x05a")
    with pytest.raises(InvalidArgument, match="InlineLane"):
        split_inline_lanes(b"\x52\x02\x1a\x05")


@given(values.calls)
def test_a_request_without_its_lanes_and_the_lanes_without_their_frames_are_all_of_it(call: ComposeCall):
    whole = compose_request(call)
    head, lanes = split_inline_lanes(whole.SerializeToString())
    rebuilt = pb.ComposeRequest.FromString(head)
    assert not rebuilt.inline_lanes
    for lane, frames in lanes:
        target = rebuilt.inline_lanes.add()
        target.MergeFromString(lane)
        assert not target.frames
        for frame in frames:
            target.frames.add().MergeFromString(frame)
    assert rebuilt == whole
    counted = sum(len(lane.frames) for lane in whole.inline_lanes)
    assert inline_counts(whole.SerializeToString(), stop_at=256) == (len(whole.inline_lanes), counted)


def test_fields_unknown_to_the_twin_and_to_the_contract_survive_the_cut():
    head, lanes = split_inline_lanes(b"\x12\x01g\x52\x06\x0a\x01m\x98\x06\x01\x98\x06\x07")
    assert pb.ComposeRequest.FromString(head).goal == "g"
    assert head.endswith(b"\x98\x06\x07")
    assert lanes == [(b"\x0a\x01m\x98\x06\x01", [])]


def test_a_batch_of_the_public_schema_is_read():
    message = provider_service_pb2.FrameBatch(query_id="q")
    message.frames.add(id="a")
    message.frames.add(id="b")
    data = message.SerializeToString()
    assert batch_query_id(data) == "q"
    assert [len(frame) for frame in split_batch(data)] == [3, 3]
