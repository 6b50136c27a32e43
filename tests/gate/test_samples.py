"""The generated sets are the same everywhere and hold every case that a cheat could hide in."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from broker.core.lanes import LaneEnd
from broker.core.scores import Direction
from broker.core.strategies import RoundRobin
from broker.gate.run import COUNT
from broker.gate.samples import SCALES, from_json, samples, to_json

SETS = samples(COUNT)


def test_they_are_the_same_every_time_and_small_ones_come_first():
    assert samples(COUNT) == SETS
    assert samples(5) == SETS[:5]
    assert max(sample.size for sample in SETS[:6]) < max(sample.size for sample in SETS)
    assert max(sample.size for sample in SETS) > 64
    assert len({hashlib.sha256(json.dumps(to_json(sample)).encode()).digest() for sample in SETS}) == COUNT


def test_they_hold_what_the_properties_are_about():
    lanes = [lane for sample in SETS for lane in sample.lanes]
    scored = [lane for lane in lanes if lane.numbers]
    assert {lane.scale.direction for lane in lanes} == set(Direction)
    assert {lane.provider for lane in lanes} == set(SCALES)
    assert min(len(sample.lanes) for sample in SETS) >= 2
    ties = [lane for lane in scored if len(lane.frames) > len({frame.score for frame in lane.frames})]
    floors = [lane for lane in scored if lane.floor is not None]
    at_floor = [lane for lane in floors if lane.floor in {frame.score for frame in lane.frames}]
    slips = [lane for lane in lanes if any(not frame.title for frame in lane.frames)]
    assert min(len(ties), len(floors), len(at_floor), len(slips)) >= 3
    shared = [
        sample
        for sample in SETS
        if any(
            count > 1
            for count in Counter(c for lane in sample.lanes for c in {f.content for f in lane.frames}).values()
        )
    ]
    assert len(shared) >= 10
    for limit in ("max_tokens", "max_frames", "max_frames_per_provider"):
        assert 5 <= sum(getattr(sample, limit) is not None for sample in SETS) <= COUNT - 5


def test_limits_and_floors_do_bite():
    from broker.gate.subjects import built_in

    reasons = Counter(
        row.reason for sample in SETS for row in built_in("round_robin").compose(sample).audit if not row.included
    )
    assert {"OVER_BUDGET", "FRAME_LIMIT", "PROVIDER_FRAME_LIMIT", "BELOW_FLOOR", "DUPLICATE", "INVALID"} <= set(reasons)


def test_a_sample_comes_back_from_json():
    assert [from_json(json.loads(json.dumps(to_json(sample)))) for sample in SETS] == SETS


def test_arrival_changes_the_order_and_loses_nothing():
    for sample in SETS:
        written, arrived = sample.offered(), sample.offered(1)
        assert {lane.end for lane in arrived} <= {LaneEnd.COMPLETE, LaneEnd.EMPTY}
        by_name = {lane.provider: lane for lane in arrived}
        for lane in written:
            assert Counter(c.frame.id for c in lane.candidates) == Counter(
                c.frame.id for c in by_name[lane.provider].candidates
            )
    assert any([lane.provider for lane in s.offered()] != [lane.provider for lane in s.offered(1)] for s in SETS)


def test_without_limits_and_without_shared_evidence():
    sample = next(s for s in SETS if s.max_tokens is not None)
    assert sample.unpressed().request(RoundRobin()).max_frames is None
    assert sample.unpressed().lanes == sample.lanes
    owners = Counter(f.content.split()[0] for lane in sample.unshared().lanes for f in lane.frames)
    assert set(owners) == {lane.provider for lane in sample.lanes if lane.frames}


def test_a_smaller_sample_has_one_thing_less():
    sample = next(s for s in SETS if s.max_frames and any(lane.floor is not None for lane in s.lanes))
    smaller = list(sample.smaller())
    floors = sum(lane.floor is not None for lane in sample.lanes)
    limits = sum(limit is not None for limit in (sample.max_tokens, sample.max_frames, sample.max_frames_per_provider))
    assert len(smaller) == len(sample.lanes) + sample.size + floors + limits
    assert sample not in smaller
