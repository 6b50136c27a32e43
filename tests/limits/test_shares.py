"""No bound is ever passed, what was given back is there again, and the greedy never leave a newcomer without room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.errors import ResourceExhausted
from broker.limits.shares import Holding, Shares


def shares(*, each: int, total: int) -> Shares:
    return Shares(
        "slots",
        "SLOTS",
        each=each,
        each_key="limits.tenant_slots",
        total=total,
        total_key="limits.slots",
        retry_after=2,
    )


def greedy(of: Shares, holder: str) -> int:
    """Takes one by one until refused."""
    while True:
        try:
            of.take(holder)
        except ResourceExhausted:
            return of.held(holder)


class Holders(RuleBasedStateMachine):
    """Calls that take and give back, against a list of who has what."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = shares(each=6, total=10)
        self.open: list[tuple[str, Holding]] = []
        self.reserved: dict[int, int] = {}

    def held(self, holder: str) -> int:
        return sum(holding.amount for name, holding in self.open if name == holder)

    def spare(self, holding: Holding) -> int:
        return self.reserved.get(id(holding), 0)

    @rule(holder=st.sampled_from("abc"), amount=st.integers(0, 7))
    def begins(self, holder: str, amount: int) -> None:
        holding = self.shares.holding(holder)
        try:
            holding.take(amount)
        except ResourceExhausted:
            assert holding.amount == 0
            if amount == 1 and self.held(holder) == 0:
                assert self.shares.used == 10, "one that has nothing is refused only where nothing is free"
        self.open.append((holder, holding))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), amount=st.integers(1, 3))
    def takes_more(self, data: st.DataObject, amount: int) -> None:
        _, holding = data.draw(st.sampled_from(self.open))
        before, spare = holding.amount, self.spare(holding)
        try:
            holding.take(amount)
        except ResourceExhausted:
            assert holding.amount == before
            assert amount > spare, "what was reserved is there"
        else:
            assert holding.amount == before + max(0, amount - spare)
            self.reserved[id(holding)] = max(0, spare - amount)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), amount=st.integers(0, 4))
    def reserves(self, data: st.DataObject, amount: int) -> None:
        _, holding = data.draw(st.sampled_from(self.open))
        before = holding.amount
        try:
            holding.reserve(amount)
        except ResourceExhausted:
            assert holding.amount == before
        else:
            assert holding.amount == before + amount
            self.reserved[id(holding)] = self.spare(holding) + amount

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settles(self, data: st.DataObject) -> None:
        _, holding = data.draw(st.sampled_from(self.open))
        before = holding.amount
        holding.settle()
        holding.settle()
        assert holding.amount == before - self.spare(holding)
        self.reserved.pop(id(holding), None)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.open))
        with entry[1]:
            pass
        entry[1].release()
        self.reserved.pop(id(entry[1]), None)
        self.open.remove(entry)

    @invariant()
    def what_is_counted_is_what_is_held(self) -> None:
        counted = {name: self.held(name) for name in "abc"}
        assert {name: self.shares.held(name) for name in "abc"} == counted
        assert self.shares.used == sum(counted.values()) <= 10
        assert set(self.shares._held) == {name for name, amount in counted.items() if amount}, "no one else is known"
        assert all(0 <= amount <= 6 for amount in counted.values())


TestHolders = Holders.TestCase


@given(st.integers(1, 200), st.integers(1, 200))
def test_one_alone_reaches_its_own_bound_and_not_one_more(each: int, more: int) -> None:
    assert greedy(shares(each=each, total=each + more - 1), "a") == each


@given(st.integers(1, 8), st.integers(40, 400), st.data())
def test_the_greedy_leave_a_newcomer_as_much_as_they_have(holders: int, total: int, data: st.DataObject) -> None:
    each = data.draw(st.integers(1, total // 2))
    one = shares(each=each, total=total)
    got = [greedy(one, f"greedy {number}") for number in range(holders)]
    for _ in range(holders):
        # Those that came first hold more than their part until something ends.
        for number in range(holders):
            if one.held(f"greedy {number}") > 1:
                one.give(f"greedy {number}", one.held(f"greedy {number}") - 1)
        got = [greedy(one, f"greedy {number}") for number in range(holders)]
    assert sum(got) == one.used
    free = total - one.used
    assert free >= min(got) - 1
    assert greedy(one, "newcomer") >= 1


def test_a_refusal_names_the_bound_and_when_to_come_back() -> None:
    one = shares(each=2, total=3)
    one.take("a", 2)
    with pytest.raises(ResourceExhausted, match="2 of your 2 slots") as own:
        one.take("a")
    assert (own.value.reason, own.value.quota, own.value.retry_after) == ("SLOTS", "limits.tenant_slots", 2)
    one.take("b")
    with pytest.raises(ResourceExhausted, match="all together") as all_together:
        one.take("c")
    assert all_together.value.quota == "limits.slots"
    assert not any(character.isdigit() for character in all_together.value.message), "no one learns what others have"


def test_a_look_takes_nothing() -> None:
    one = shares(each=1, total=1)
    one.check("a")
    one.take("a")
    one.give("a")
    one.take("b")
    with pytest.raises(ResourceExhausted):
        one.check("a")


def test_other_bounds_hold_for_what_is_taken_from_then_on() -> None:
    of = shares(each=4, total=4)
    of.take("a", 4)
    of.resize(each=2, total=3)
    with pytest.raises(ResourceExhausted):
        of.take("b")
    of.give("a", 4)
    assert greedy(of, "a") == 2
    of.resize(each=6, total=6)
    assert greedy(of, "a") == 6
