"""A subject is found again by its origin, and shows what its policy is given."""

from __future__ import annotations

import pytest

from broker.core.handles import Handle
from broker.core.strategies import CATALOGUE, PluginStrategy
from broker.gate.samples import samples
from broker.gate.subjects import built_in, plugged_in, subject_of
from tests.gate import mutants
from tests.plugins.installing import MODULE, installed


@pytest.mark.parametrize("name", [info.name for info in CATALOGUE.values()])
def test_every_built_in_policy_is_one(name: str):
    subject = built_in(name)
    assert subject_of(subject.origin) == subject
    assert {type(strategy) for strategy in subject.strategies} <= set(CATALOGUE)
    assert subject.raw is (name == "score_descending")


def test_there_is_no_other():
    with pytest.raises(KeyError):
        built_in("nope")


def test_others_are_found_by_module_and_attribute(tmp_path):
    assert subject_of("subject:tests.gate.mutants:M1") is mutants.M1
    with installed(tmp_path):
        subject = subject_of(f"plugin:{MODULE}:KindFirst")
        assert subject.strategies == (PluginStrategy("kind_first"),)
        assert subject.plugin.version == "1.2.0"


def test_other_parameters_take_their_turn(tmp_path):
    plugin = mutants.Ordering(lambda handles: [h.index for h in handles])
    subject = plugged_in(plugin, "", [{"k": 2}])
    assert subject.strategies == (PluginStrategy("cheat"), PluginStrategy("cheat", {"k": 2}))
    assert subject.origin == ""


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda info: info.name)
def test_what_a_built_in_policy_is_given_is_seen_where_it_serves(info):
    for sample in samples(12):
        columns = built_in(info.name).seen(sample).columns
        assert bool(columns) is not info.compares_raw_scores
        assert all(columns)


def test_what_a_plugin_is_given_is_seen():
    sample = samples(12)[-1]
    seen = built_in("round_robin").seen(sample)
    assert seen.handles
    assert all(type(handle) is Handle for handle in seen.handles)
    assert sorted(seen.order) == list(range(len(seen.handles)))
