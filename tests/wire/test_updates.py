"""What is heard while collecting comes back from the wire as it was."""

from __future__ import annotations

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from broker.core.lanes import LaneEnd, LaneUpdate
from broker.wire.updates import (
    Accepted,
    LaneSource,
    OpenedLane,
    accepted_message,
    lane_state,
    lane_updates_message,
    read_accepted,
    read_lane_state,
    read_lane_updates,
)
from tests.wire import values

lanes = values.tuples(st.builds(OpenedLane, values.names, st.sampled_from(LaneSource), values.uint32, values.uint32))


@given(st.builds(Accepted, values.texts, values.texts, lanes))
def test_accepted_comes_back_as_it_was(accepted: Accepted):
    message = pb.ComposeResponse.FromString(accepted_message(accepted).SerializeToString())
    assert read_accepted(message.accepted) == accepted


updates = st.builds(LaneUpdate, values.names, st.none() | st.sampled_from(LaneEnd), values.uint32, values.texts)


@given(values.tuples(updates))
def test_updates_come_back_as_they_were(told: tuple[LaneUpdate, ...]):
    message = pb.ComposeResponse.FromString(lane_updates_message(told).SerializeToString())
    assert read_lane_updates(message.lane_updates) == told


def test_every_state_of_the_contract_but_collecting_is_an_end():
    states = {name.removeprefix("LANE_STATE_"): number for name, number in composition_pb2.LaneState.items()}
    assert {end.value for end in LaneEnd} == set(states) - {"UNSPECIFIED", "COLLECTING"}
    assert all(lane_state(end) == states[end.value] for end in LaneEnd)
    assert read_lane_state(states["COLLECTING"]) is None
    assert read_lane_state(99) is None


def test_a_state_has_a_name():
    assert LaneUpdate("a", None, 0).state == "COLLECTING"
    assert LaneUpdate("a", LaneEnd.LOST, 0).state == "LOST"


def test_a_source_of_a_later_broker_reads_as_attached():
    message = pb.Accepted(lanes=[pb.OpenedLane(provider_id="a", source=9)])
    assert read_accepted(message).lanes[0].source is LaneSource.ATTACHED
