"""Whatever bytes a stranger sends, reading them gives values or the domain's own errors, and never anything else."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

ROUNDS = 1_000
"""Messages made of each target's seeds; a run by hand (``tests/fuzz/run.py``) makes millions."""

MOST = 2_000
"""Bytes up to which a message is built upon further."""


def test_every_target_has_seeds():
    assert SEEDS.keys() == TARGETS.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_messages_near_to_right_ones_are_read_or_refused(target: str):
    rng = random.Random(target)  # The same messages in every run.
    pool = list(SEEDS[target])
    for seed in pool:
        TARGETS[target](seed)
    for _ in range(ROUNDS):
        data = mutated(rng.choice(pool), rng)
        try:
            TARGETS[target](data)
        except Exception as error:
            raise AssertionError(f"{target} fails for bytes.fromhex({data.hex()!r})") from error
        if len(data) < MOST and rng.random() < 0.05:
            pool.append(data)


@pytest.mark.parametrize("target", TARGETS)
def test_noise_is_read_or_refused(target: str):
    rng = random.Random(target)
    for _ in range(ROUNDS):
        TARGETS[target](rng.randbytes(rng.choice((0, 1, 3, 10, 100, 1000))))
