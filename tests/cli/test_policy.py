"""Options become exactly the policy that they name; an option that the policy does not take is refused."""

from __future__ import annotations

import json

import click
import pytest

from broker.cli.policy import STRATEGIES, plugin_of, strategy_of
from broker.core.frames import FrameRef
from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)

NOTHING = {"k": None, "weights": (), "default_weight": None, "order": None, "ids": (), "order_name": ""}
WEIGHTS = (("files", 2.0),)


@pytest.mark.parametrize(
    ("name", "options", "strategy"),
    [
        (None, {}, None),
        ("round_robin", {}, RoundRobin()),
        ("score_descending", {}, ScoreDescending()),
        ("per_provider_quota", {}, PerProviderQuota(3)),
        ("per_provider_quota", {"k": 5}, PerProviderQuota(5)),
        ("trust_weighted", {"weights": WEIGHTS, "default_weight": 0.0}, TrustWeighted({"files": 2.0}, 0.0)),
        ("reciprocal_rank_fusion", {}, ReciprocalRankFusion(60)),
        ("reciprocal_rank_fusion", {"k": 0, "weights": WEIGHTS}, ReciprocalRankFusion(0, {"files": 2.0})),
        ("precomputed", {"ids": (FrameRef("a", "1"),), "order_name": "x"}, Precomputed((("a", "1"),), "x")),
    ],
)
def test_policies(name, options, strategy):
    assert strategy_of(name, **{**NOTHING, **options}) == strategy


def test_a_file_of_names_comes_before_ids(tmp_path):
    path = tmp_path / "order.jsonl"
    path.write_text(json.dumps({"provider": "files", "frame_id": "b"}))
    found = strategy_of("precomputed", **{**NOTHING, "order": path, "ids": (FrameRef("a", "1"),)})
    assert found == Precomputed((("files", "b"), ("a", "1")))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("round_robin", {"k": 2}, "--k goes with --strategy per_provider_quota or --strategy reciprocal_rank_fusion"),
        (None, {"weights": WEIGHTS}, "--weight goes with --strategy trust_weighted"),
        (
            "trust_weighted",
            {"order_name": "x"},
            "--order-name goes with --strategy precomputed, not with trust_weighted",
        ),
        ("trust_weighted", {"weights": WEIGHTS * 2}, "names a provider twice"),
        ("precomputed", {}, "needs an order"),
    ],
)
def test_options_that_do_not_go_with_the_policy(name, options, says):
    with pytest.raises(click.UsageError) as caught:
        strategy_of(name, **{**NOTHING, **options})
    assert says in caught.value.message


def test_every_built_in_policy_has_a_name():
    assert set(STRATEGIES.values()) == {
        RoundRobin,
        PerProviderQuota,
        TrustWeighted,
        ReciprocalRankFusion,
        Precomputed,
        ScoreDescending,
    }


def test_a_plugin_is_named_with_its_parameters():
    assert plugin_of(None, (), None) is None
    assert plugin_of("mine", (("k", 5), ("x", "y")), None) == PluginStrategy("mine", {"k": 5, "x": "y"})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None, (("k", 5),), None), "--param goes with --plugin"),
        (("mine", (), "round_robin"), "each name a policy"),
        (("mine", (("k", 5), ("k", 6)), None), "gives a value twice"),
    ],
)
def test_a_plugin_that_is_half_named_is_wrong_usage(arguments, says):
    with pytest.raises(click.UsageError, match=says):
        plugin_of(*arguments)
