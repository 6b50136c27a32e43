"""The order before says of a candidate what its lanes said, weighed as the policy weighs them, or else its place."""

from __future__ import annotations

from broker.core.frames import FrameRef
from broker.core.handles import Handle
from broker.core.lexical import Vote
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)
from broker.core.votes import votes_of


def handle(index: int, **places: int) -> Handle:
    provider = next(iter(places))
    name = FrameRef(provider, str(index))
    return Handle(index, provider, str(index), 0, index + 1, tuple(places.items()), (name,), 1, "snippet", "")


HANDLES = [handle(0, a=1, b=4), handle(1, b=2), handle(2, c=3)]
ORDER = [2, 0, 1]


def test_lanes_vote_by_their_places():
    expected = [(Vote(1), Vote(4)), (Vote(2),), (Vote(3),)]
    for strategy in (RoundRobin(), PerProviderQuota(2), ReciprocalRankFusion(), TrustWeighted()):
        assert votes_of(strategy, HANDLES, ORDER) == expected


def test_weights_are_parts_of_the_heaviest_and_none_is_no_vote():
    expected = [(Vote(1, 0.5), Vote(4, 1.0)), (Vote(2, 1.0),), ()]
    weights = {"a": 500.0, "b": 1000.0, "c": 0.0}
    for strategy in (ReciprocalRankFusion(60, weights), TrustWeighted(weights)):
        assert votes_of(strategy, HANDLES, ORDER) == expected


def test_where_every_lane_weighs_nothing_there_is_no_vote():
    assert votes_of(TrustWeighted({}, 0.0), HANDLES, ORDER) == [(), (), ()]


def test_an_order_that_is_not_made_of_lanes_is_one_vote():
    expected = [(Vote(2),), (Vote(3),), (Vote(1),)]
    for strategy in (Precomputed(()), ScoreDescending()):
        assert votes_of(strategy, HANDLES, ORDER) == expected


def test_no_handles():
    assert votes_of(RoundRobin(), [], []) == []
    assert votes_of(TrustWeighted(), [], []) == []
