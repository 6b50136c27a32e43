"""A snapshot is streamed in messages of at most 512 KiB and comes back whole, or not at all."""

from __future__ import annotations

import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import LaneSummary
from broker.core.lanes import LaneEnd
from broker.errors import Internal
from broker.wire.compositions import MAX_MESSAGE_BYTES
from broker.wire.snapshots import Snapshot, SnapshotReader, snapshot_messages
from tests.wire import values
from tests.wire.test_compositions import KIB, block, made, streamed

snapshots = st.builds(Snapshot, st.integers(1, 2**32 - 1), values.tuples(values.names), values.compositions())


def parts_of(snapshot: Snapshot) -> list[pb.Snapshot]:
    return [pb.ComposeResponse.FromString(message).snapshot for message in snapshot_messages(snapshot)]


@settings(max_examples=40)
@given(snapshots)
def test_a_snapshot_comes_back_as_it_was_and_ends_with_its_last_part(snapshot: Snapshot):
    reader = SnapshotReader(snapshot.composition.request_id)
    *before, last = map(reader.take, parts_of(snapshot))
    assert (set(before) <= {None}, last) == (True, snapshot)


@settings(max_examples=25)
@given(snapshots)
def test_its_parts_are_those_of_its_composition(snapshot: Snapshot):
    parts = parts_of(snapshot)
    assert [part.part for part in parts] == [message.part for message in streamed(snapshot.composition)]
    for part in parts:
        assert part.number == snapshot.number
        assert tuple(part.collecting) == (snapshot.collecting if part is parts[-1] else ())


def test_no_message_is_too_large_whatever_is_still_collecting():
    lanes = tuple(LaneSummary(provider=f"p{i:062}", end=LaneEnd.FAILED, message="m" * 256) for i in range(500))
    placed = tuple(block(i + 1, 8, content=200 * KIB, rendered=250 * KIB) for i in range(8))
    composition = made(placed, rows=20_000)
    composition = replace(composition, summary=replace(composition.summary, lanes=lanes))
    snapshot = Snapshot(1, tuple(f"q{i:062}" for i in range(4000)), composition)
    messages = list(snapshot_messages(snapshot))
    assert max(map(len, messages)) <= MAX_MESSAGE_BYTES
    reader = SnapshotReader()
    whole = [reader.take(pb.ComposeResponse.FromString(message).snapshot) for message in messages][-1]
    assert whole is not None
    assert whole.collecting == snapshot.collecting
    assert whole.composition.placed == composition.placed


def test_one_that_was_cut_short_is_superseded_and_never_told():
    first, second = Snapshot(1, ("a", "b"), made((block(1, 1),), rows=2)), Snapshot(2, ("b",), made(rows=3))
    cut = parts_of(first)[:-1]
    reader = SnapshotReader()
    assert [reader.take(part) for part in (*cut, *parts_of(second))][-1] == second
    assert cut


@pytest.mark.parametrize("late", [1, 2], ids=["of an earlier one", "of one that has ended"])
def test_a_part_that_follows_its_end_breaks_the_answer(late: int):
    reader = SnapshotReader()
    for part in parts_of(Snapshot(2, (), made(rows=1))):
        reader.take(part)
    with pytest.raises(Internal, match=f"snapshot {late}") as error:
        reader.take(pb.Snapshot(number=late, part=composition_pb2.Part()))
    assert error.value.reason == "ANSWER_BROKEN"


def test_one_without_all_of_its_parts_breaks_the_answer():
    parts = parts_of(Snapshot(1, (), made(rows=2)))
    reader = SnapshotReader()
    with pytest.raises(Internal, match="audit rows"):
        reader.take(parts[-1])


def test_a_part_without_a_number_breaks_the_answer():
    with pytest.raises(Internal, match="snapshot 0"):
        SnapshotReader().take(pb.Snapshot(part=composition_pb2.Part()))
