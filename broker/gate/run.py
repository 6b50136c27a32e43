"""Running the gate: every property on every sample, and the smallest set that breaks one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from broker.gate.checks import (
    Check,
    Finding,
    arrival_and_names,
    local_ranks,
    monotone_invariance,
    no_pressure_no_drop,
    non_interference,
    permutation,
)
from broker.gate.hashing import hash_seeds
from broker.gate.reach import nothing_to_reach
from broker.gate.samples import Sample, samples
from broker.gate.subjects import Subject

COUNT = 48
"""Samples that a gate runs."""

REACHED = 6
"""Samples on which T5 walks: it looks at objects of the same few classes each time."""

_MOST_TRIES = 400

CHECKS: Mapping[str, tuple[str, Check]] = {
    "T1": ("one provider's scores change nothing of another's", non_interference),
    "T2": ("strictly increasing maps of scores change no byte", monotone_invariance),
    "T3": ("without pressure only floor, duplicate and invalid drop a frame", no_pressure_no_drop),
    "T4": ("order of arrival, lane order among equals and hash seeds change nothing else", arrival_and_names),
    "T5": ("nothing that it is given leads to a score", nothing_to_reach),
    "ranks": ("local ranks in a lane are 1 to n, each once", local_ranks),
    "order": ("its result is a permutation", permutation),
}
"""Every property: its sentence, and what checks it."""


class Result(Enum):
    """How a property came out."""

    HOLDS = "holds"
    BROKEN = "BROKEN"
    EXEMPT = "exempt"
    """By name: the policy is the one that may compare raw scores, and is flagged so."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The smallest set that was found to break a property.

    Attributes:
        property: One of :data:`CHECKS`.
        sample: The set.
        finding: What is wrong on it.
    """

    property: str
    sample: Sample
    finding: Finding


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a policy.

    Attributes:
        name: The policy.
        results: By property, in the order of :data:`CHECKS`.
        counterexamples: One for each broken property.
    """

    name: str
    results: Mapping[str, Result]
    counterexamples: tuple[Counterexample, ...]

    @property
    def passed(self) -> bool:
        """Whether the policy may serve."""
        return not self.counterexamples


@lru_cache(maxsize=2)
def _samples(count: int) -> tuple[Sample, ...]:
    return tuple(samples(count))


def run_gate(subject: Subject, *, count: int = COUNT, processes: bool = True) -> Verdict:
    """Holds a policy against every property.

    Args:
        subject: The policy.
        count: Samples, at least 1.
        processes: Whether T4 is tried under other hash seeds too, in processes of their own, where the subject has an
            origin. They come first: what does not end, ends there.
    """
    sets = _samples(count)
    found: dict[str, Counterexample] = {}
    results: dict[str, Result] = {}
    if processes and subject.origin:
        hashed = hash_seeds(subject, sets)
        if hashed is not None:
            found["T4"] = Counterexample("T4", *hashed)
            if hashed[1].before is None:
                # It could not even be asked; nobody waits for it a second time.
                return Verdict(subject.name, {"T4": Result.BROKEN}, (found["T4"],))
    for name, (_, check) in CHECKS.items():
        if name == "T2" and subject.raw:
            results[name] = Result.EXEMPT
            continue
        if name not in found:
            example = _broken(subject, sets[:: len(sets) // REACHED or 1] if name == "T5" else sets, check)
            if example is not None:
                found[name] = Counterexample(name, *example)
        results[name] = Result.BROKEN if name in found else Result.HOLDS
    return Verdict(subject.name, results, tuple(found[name] for name in CHECKS if name in found))


def _broken(subject: Subject, sets: Sequence[Sample], check: Check) -> tuple[Sample, Finding] | None:
    for sample in sets:
        finding = _tried(subject, sample, check)
        if finding is not None:
            return _shrunk(subject, sample, finding, check)
    return None


def _shrunk(subject: Subject, sample: Sample, finding: Finding, check: Check) -> tuple[Sample, Finding]:
    """The sample without anything that it does not need to show what is wrong."""
    tries = 0
    shrinking = True
    while shrinking and tries < _MOST_TRIES:
        shrinking = False
        for smaller in sample.smaller():
            tries += 1
            still = _tried(subject, smaller, check) if smaller.size else None
            if still is not None:
                sample, finding, shrinking = smaller, still, True
                break
    return sample, finding


def _tried(subject: Subject, sample: Sample, check: Check) -> Finding | None:
    try:
        return check(subject, sample)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not pass
        return Finding(f"it fails with {type(error).__name__}: {error}")
