"""Fuzzes one target with atheris until it is told to stop: ``python -m tests.fuzz.run compose -max_total_time=600``.

What follows the target's name goes to libFuzzer. The seeds are written to a temporary directory, and what is found on
the way goes with it; an input that fails is kept where ``-artifact_prefix`` says.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

from tests.fuzz.mutate import mutated

with atheris.instrument_imports(include=["broker"]):
    from tests.fuzz.seeds import SEEDS
    from tests.fuzz.targets import TARGETS


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Half of the time by fields, and else by bytes."""
    rng = random.Random(seed)
    return mutated(data, rng)[:max_size] if rng.random() < 0.5 else atheris.Mutate(data, max_size)


def main() -> None:
    name, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(SEEDS[name]):
            (Path(corpus) / f"seed-{i}").write_bytes(seed)
        atheris.Setup([sys.argv[0], *arguments, corpus], TARGETS[name], custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
