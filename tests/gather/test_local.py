"""The fabric of one broker keeps the contract of the fabric port, and remembers nothing that it need not."""

from __future__ import annotations

import pytest

from broker.core.scores import UNIT, ScoreScale
from broker.errors import FailedPrecondition
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.registry import Registry
from tests.contract.fabric_contract import FabricContract, Harness
from tests.gather.support import FakeClock


class LocalHarness(Harness):
    def __init__(self, registry: Registry | None = None) -> None:
        self.clock = FakeClock()
        self.registry = registry or Registry()
        self.pushes = Pushes(self.clock)
        self.fabric = LocalFabric(self.clock, self.registry, self.pushes)

    def settle(self) -> None:
        self.clock.settle()


class TestLocalFabric(FabricContract):
    make = staticmethod(LocalHarness)


def test_attaching_and_leaving_are_noted_in_the_registry():
    harness = LocalHarness()
    one, two = harness.attach(instance="1"), harness.attach(instance="2")
    assert harness.registry.get("a").attached == 2
    harness.fabric.withdraw(one)
    harness.fabric.withdraw(two)
    assert harness.registry.get("a").attached == 0
    assert harness.registry.get("a").last_seen == 12.0


def test_a_replacement_is_no_second_instance():
    harness = LocalHarness()
    harness.attach(session="s1")
    harness.attach(session="s2")
    assert harness.registry.get("a").attached == 1


def test_a_scale_that_the_operator_configured_binds_the_first_instance_too():
    harness = LocalHarness(Registry({"a": ScoreScale("mine")}))
    with pytest.raises(FailedPrecondition) as caught:
        harness.attach()
    assert caught.value.reason == "SCALE_CONFLICT"
    assert harness.fabric.instances() == ()


def test_what_ended_or_was_cancelled_is_not_remembered():
    harness = LocalHarness()
    instance = harness.attach()
    _, handle = harness.ask()
    harness.ask()
    handle.cancel()
    instance.asked[1].end()
    harness.fabric.withdraw(instance)
    assert not harness.fabric._answers
    assert not harness.fabric._providers
    assert not harness.fabric._replicas


def test_replacements_are_forgotten_after_their_minute():
    harness = LocalHarness()
    for name in ("1", "2"):
        harness.attach(instance=name, session="s1")
        harness.attach(instance=name, session="s2")
    harness.advance(61)
    harness.attach(instance="1", session="s3", scale=UNIT)
    assert set(harness.fabric._replacements) == {("", "a", "1")}


def test_replacements_are_forgotten_in_the_order_of_the_last():
    """Whoever replaces many replicas makes no replacement dearer for others: those that stay are not looked at."""
    harness = LocalHarness()
    for name in ("1", "2", "3"):
        harness.attach(instance=name, session="s1")
        harness.attach(instance=name, session="s2")
    harness.advance(50)
    harness.attach(instance="1", session="s3")
    assert list(harness.fabric._replacements) == [("", "a", "2"), ("", "a", "3"), ("", "a", "1")]
    harness.advance(11)
    harness.attach(instance="3", session="s3")
    assert list(harness.fabric._replacements) == [("", "a", "1"), ("", "a", "3")]
    assert [len(times) for times in harness.fabric._replacements.values()] == [2, 1]
