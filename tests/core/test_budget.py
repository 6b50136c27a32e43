"""The whole prompt takes no more than its budget by the request's own counter, in every mode, whatever is offered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest

from broker.core.checks import Verdict
from broker.core.compose import compose, overhead
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4, TokenCounter
from broker.core.frames import Frame, Provenance
from broker.core.lanes import Lane
from broker.core.replay import replay
from broker.core.request import CompositionRequest, Duplicates, Fence, Placement, Policy, RenderMode
from broker.tokenizers.huggingface import HuggingFaceCounter
from broker.tokenizers.tiktoken_file import PATTERNS, TiktokenCounter
from tests.core.building import EVERY, lane
from tests.soaking import Soak
from tests.tokenizers.making import TEXT, tiktoken_file, tokenizer_json

QUICK = 12
"""Requests for each mode and counter where the test is not a long run."""

PIECES = (
    *TEXT.split(), " ", "  ", "\n", "\r\n", "\t", "'", '"', "\\", "`", "```", "|", "é", "e\u0301", "漢字", "שלום", "😀",
    "\u200d", "\u202e", "\u200b", "<|im_start|>", "</frame>", "1234567", "a" * 300, " " * 200, "}\n", "],[", "/", "0",
)  # fmt: skip


@cache
def counters() -> dict[str, TokenCounter]:
    """One of each kind."""
    made: tuple[TokenCounter, ...] = (
        BYTES_PER_4,
        TiktokenCounter("o200k", "sha256:0", tiktoken_file(), PATTERNS["o200k_base"]),
        TiktokenCounter("cl100k", "sha256:1", tiktoken_file(), PATTERNS["cl100k_base"]),
        HuggingFaceCounter("words", "sha256:2", tokenizer_json()),
    )
    return {one.name: one for one in made}


NAMES = ("bytes/4", "o200k", "cl100k", "words")


def text(chance: random.Random, most: int) -> str:
    return "".join(chance.choices(PIECES, k=chance.randint(1, most)))


def offered(chance: random.Random) -> Iterator[Lane]:
    for provider in chance.sample(["a", "files", "notes"], chance.randint(0, 3)):
        frames = [
            Frame(
                f"f{number}",
                text(chance, 3).strip() or "t",
                text(chance, chance.choice([1, 5, 40])),
                chance.random(),
                citation_label=chance.choice(["", text(chance, 2)]),
                uri=chance.choice(["", "file:///x", "file:///y"]),
                provenance=chance.choice([(), (Provenance("file", "file:///z", "L1"),)]),
            )
            for number in range(chance.randint(0, 8))
        ]
        yield lane(provider, frames)


def asked(chance: random.Random, mode: RenderMode, counter: str, policy: Policy) -> CompositionRequest:
    """A request whose budget holds the prompt's own texts, and often little more."""
    data_alone = mode in (RenderMode.JSON, RenderMode.NONE)
    fields = {
        "strategy": chance.choice(EVERY),
        "duplicates": chance.choice(list(Duplicates)),
        "placement": chance.choice(list(Placement)),
        "fold_min_tokens": chance.choice([0, 200, 4096]),
        "fence": chance.choice(list(Fence)),
        "mode": mode,
        "tokenizer": counter,
        "question": "" if data_alone else chance.choice(["", text(chance, 8)]),
        "safety_factor": chance.choice([1.0, 1.0, 1.1, 3.7]),
        "max_frames": chance.choice([None, 3]),
        "max_frames_per_provider": chance.choice([None, 2]),
        "max_frames_per_source": chance.choice([None, 1, 2]),
    }
    least = overhead(CompositionRequest(max_tokens=1, **fields), policy).total
    more = chance.choice([0, chance.randint(0, 100), chance.randint(0, 3000)])
    return CompositionRequest(max_tokens=int((least + more) * fields["safety_factor"]) + 1, **fields)


def overshoot(composition: Composition, counter: TokenCounter) -> int:
    """Tokens by which a composition is over its budget, counted as one text; below 0: it is not."""
    budget = composition.summary.budget
    contents = sum(counter.count(placed.frame.content) for placed in composition.placed)
    emitted = contents if composition.summary.render.mode == "NONE" else counter.count(composition.prompt)
    assert budget.usable * Fraction(repr(budget.safety_factor)) <= budget.max_tokens
    return max(emitted, budget.used) - budget.usable


def worst(mode: RenderMode, name: str, requests: int, counter: TokenCounter) -> tuple[int, int]:
    """The largest overshoot of so many random requests, and how many of them left a frame out for the budget."""
    policy = Policy(seal_key=b"the key of the tests", counters={name: counter})
    found, tight = -(10**9), 0
    for seed in range(requests):
        chance = random.Random(f"{mode.value} {name} {seed}")
        request = asked(chance, mode, name, policy)
        composition = compose(list(offered(chance)), request, policy)
        found = max(found, overshoot(composition, counter))
        tight += "OVER_BUDGET" in composition.summary.reasons
        if seed % 10 == 0:
            assert [check for check in replay(composition, request) if check.verdict is Verdict.DIFFERS] == []
    return found, tight


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", RenderMode)
def test_no_request_takes_more_than_its_budget(mode, name):
    found, tight = worst(mode, name, QUICK, counters()[name])
    assert found <= 0
    assert tight > 0, "no budget was tight"


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", RenderMode)
def test_no_request_of_many_takes_more_than_its_budget(mode, name, soak: Soak):
    requests = soak.count(10_000)
    found, tight = worst(mode, name, requests, counters()[name])
    soak.record(
        "budget held", mode=mode.value, counter=name, requests=requests, tight=tight, largest_overshoot=max(0, found)
    )
    assert found <= 0
