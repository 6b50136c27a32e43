"""The joined prompt is within the budget by the request's own counter, whatever that makes of joints."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.audited import Reason
from broker.core.checks import Verdict
from broker.core.replay import replay
from broker.core.request import CompositionRequest, Placement, Policy, RenderMode
from tests.core.building import composed, excluded, frame, lane, placed, ranked, row

KEY = b"the key of the tests"


class Words:
    """A token a word, and one more for every so many of them: a whole may have more than its parts come to."""

    name, version = "words", "sha256:0123"

    def __init__(self, surcharge_at: int = 40) -> None:
        self._at = surcharge_at

    def count(self, text: str, /) -> int:
        words = len(text.split())
        return words + words // self._at


POLICY = Policy(seal_key=KEY, counters={"words": Words()})


def lanes(*sizes: int):
    return lane("a", [frame(f"f{n}", 1 - n / 100, f"w{n} " * size) for n, size in enumerate(sizes)])


def test_the_audit_names_the_counter_and_its_file():
    budget = composed(lanes(1), policy=POLICY, tokenizer="words").summary.budget
    assert (budget.counter, budget.safety_factor, budget.split) == ("words sha256:0123", 1.0, "FULL")
    assert composed(lanes(1)).summary.budget.counter == "bytes/4"


def test_what_fits_block_by_block_and_not_as_one_goes_last_rank_first():
    parts = composed(lanes(30, 30, 30), policy=POLICY, tokenizer="words", max_tokens=10_000).summary.budget.used
    composition = composed(lanes(30, 30, 30), policy=POLICY, tokenizer="words", max_tokens=parts)
    joined = Words().count(composed(lanes(30, 30, 30), policy=POLICY, tokenizer="words").prompt)
    assert joined > parts
    assert (ranked(composition), excluded(composition)) == (["f0", "f1", "f2"], {"f2": Reason.OVER_BUDGET})
    left = row(composition, "a", "f2")
    assert left.detail == f"costs {left.cost}; joined, the prompt counts {joined} tokens of {parts}"
    assert left.remaining >= left.cost
    assert Words().count(composition.prompt) <= parts


class Joints:
    """Two tokens more for every joint of two blocks; counts how often it read a whole prompt."""

    name, version = "joints", ""

    def __init__(self) -> None:
        self.wholes = 0

    def count(self, text: str, /) -> int:
        self.wholes += text.count("<frame ") > 1
        return (len(text) + 3) // 4 + 2 * text.count(">\n<frame ")


@settings(max_examples=40)
@given(st.integers(2, 90), st.integers(0, 250))
def test_many_frames_that_must_go_take_few_counts_and_as_few_frames_as_one_by_one(number, less):
    counter = Joints()
    options = {"policy": Policy(seal_key=KEY, counters={"joints": counter}), "tokenizer": "joints"}
    parts = composed(lanes(*[1] * number), **options).summary.budget
    usable = max(parts.preamble + parts.closing, parts.used - less)
    counter.wholes = 0
    composition = composed(lanes(*[1] * number), **options, max_tokens=usable)
    assert counter.wholes <= 2 * number.bit_length() + 1
    assert counter.count(composition.prompt) <= usable
    taken = [one for one in composition.audit if one.remaining < one.cost or one.included]
    back = [one for one in composition.audit if one.remaining >= one.cost and not one.included]
    assert {one.rank for one in back} == set(
        range(len(composition.placed) + 1, len(composition.placed) + len(back) + 1)
    )
    if back:
        one_more = len(composition.placed) + 1
        prompt = composed(lanes(*[1] * number), **options, max_frames=one_more).prompt
        assert counter.count(prompt) > usable
    assert len(taken) + len(back) == number
    assert [check for check in replay(composition) if check.verdict is Verdict.DIFFERS] == []


def test_a_tokenizer_that_the_policy_does_not_have_is_a_fault():
    with pytest.raises(KeyError):
        composed(lanes(1), tokenizer="words")


@pytest.mark.parametrize("mode", RenderMode)
@given(
    st.lists(st.integers(1, 60), max_size=8),
    st.integers(1, 400),
    st.sampled_from([1, 2, 40]),
    st.sampled_from(Placement),
    st.sampled_from([1.0, 1.3]),
)
def test_no_counter_and_no_placement_is_over_the_budget(mode, sizes, more, surcharge_at, placement, factor):
    policy = Policy(seal_key=KEY, counters={"words": Words(surcharge_at)})
    request = {"policy": policy, "tokenizer": "words", "mode": mode}
    least = composed(**request).summary.budget.used
    composition = composed(
        lanes(*sizes), **request, max_tokens=int((least + more) * factor) + 1, placement=placement, safety_factor=factor
    )
    budget = composition.summary.budget
    assert Words(surcharge_at).count(composition.prompt) <= budget.usable
    assert budget.used <= budget.usable
    assert budget.usable * Fraction(repr(factor)) <= budget.max_tokens
    asked = CompositionRequest(
        max_tokens=budget.max_tokens, tokenizer="words", mode=mode, placement=placement, safety_factor=factor
    )
    assert [one for one in replay(composition, asked) if one.verdict is Verdict.DIFFERS] == []


def test_auto_is_settled_by_what_the_prompt_costs_and_the_audit_says_so():
    sizes = (1, 1, 1, 1)
    short = composed(lanes(*sizes), placement=Placement.AUTO)
    used = short.summary.budget.used
    assert placed(short) == ["f0", "f1", "f2", "f3"]
    assert (short.summary.placement, short.summary.placement_asked, short.summary.fold_min_tokens) == (
        "RANK_ORDER", "AUTO", 4096,
    )  # fmt: skip
    long = composed(lanes(*sizes), placement=Placement.AUTO, fold_min_tokens=used)
    assert placed(long) == ["f0", "f2", "f3", "f1"]
    assert (long.summary.placement, long.summary.placement_asked) == ("FOLD", "AUTO")
    named = composed(lanes(*sizes))
    assert (named.summary.placement, named.summary.placement_asked, named.summary.fold_min_tokens) == (
        "FOLD", "FOLD", 0,
    )  # fmt: skip
