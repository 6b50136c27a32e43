"""Every policy comes back as it was, defaults filled in; one that cannot be run is refused with its path."""

from __future__ import annotations

import typing

import pytest
from contextbroker.v1 import strategy_pb2 as pb
from hypothesis import given

from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    ReciprocalRankFusion,
    RoundRobin,
    Strategy,
    TrustWeighted,
    name_of,
)
from broker.errors import InvalidArgument
from broker.wire.strategies import read_strategy, strategy_message
from tests.wire import values


@given(values.strategies)
def test_a_policy_comes_back_as_it_was(strategy: Strategy):
    data = strategy_message(strategy).SerializeToString()
    assert read_strategy(pb.RankingStrategy.FromString(data)) == strategy


@pytest.mark.parametrize("kind", typing.get_args(Strategy))
def test_every_policy_has_the_name_of_its_field(kind: type):
    made = {"Precomputed": lambda: kind(()), "PluginStrategy": lambda: kind("plugin")}
    strategy = made.get(kind.__name__, kind)()
    assert strategy_message(strategy).WhichOneof("strategy") == name_of(strategy)


def test_what_is_left_out_takes_the_default():
    def read(**fields):
        return read_strategy(pb.RankingStrategy.FromString(pb.RankingStrategy(**fields).SerializeToString()))

    assert read(per_provider_quota=pb.PerProviderQuota()) == PerProviderQuota(3)
    assert read(trust_weighted=pb.TrustWeighted()) == TrustWeighted({}, 1.0)
    assert read(reciprocal_rank_fusion=pb.ReciprocalRankFusion()) == ReciprocalRankFusion(60, {}, 1.0)
    assert read(round_robin=pb.RoundRobin()) == RoundRobin()


def test_zero_is_not_left_out():
    fusion = pb.RankingStrategy(reciprocal_rank_fusion=pb.ReciprocalRankFusion(k=0, default_weight=0.0))
    assert read_strategy(fusion) == ReciprocalRankFusion(0, {}, 0.0)
    assert read_strategy(pb.RankingStrategy(per_provider_quota=pb.PerProviderQuota(k=0))) == PerProviderQuota(0)


@pytest.mark.parametrize("name", ["trust_weighted", "reciprocal_rank_fusion"])
def test_two_weights_for_one_provider_are_refused(name: str):
    message = pb.RankingStrategy()
    for provider in ("a", "b", "a"):
        getattr(message, name).weights.add(provider_id=provider, weight=1.0)
    with pytest.raises(InvalidArgument) as error:
        read_strategy(message)
    assert [(v.field, v.reason) for v in error.value.violations] == [
        (f"strategy.{name}.weights[2].provider_id", "WEIGHT")
    ]


def test_no_policy_is_refused():
    with pytest.raises(InvalidArgument) as error:
        read_strategy(pb.RankingStrategy())
    assert [(v.field, v.reason) for v in error.value.violations] == [("strategy", "STRATEGY")]


def test_a_plugins_parameters_are_values_as_json_has_them():
    params = {"k": 60, "part": 0.5, "on": True, "none": None, "text": "x", "list": [1, [2]], "object": {"a": {"b": 1}}}
    assert read_strategy(strategy_message(PluginStrategy("p", params))) == PluginStrategy("p", params)
    assert read_strategy(pb.RankingStrategy(plugin=pb.Plugin(name="p"))) == PluginStrategy("p", {})


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x"])
def test_a_parameter_that_json_does_not_have_is_not_sent(value: object):
    with pytest.raises(TypeError, match="JSON-like"):
        strategy_message(PluginStrategy("p", {"x": value}))
