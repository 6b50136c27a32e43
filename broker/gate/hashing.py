"""T4 over processes: under another seed of Python's hashes, a policy answers the same.

Run as a module this is the other process: it reads what to compose from standard input and writes digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from broker.gate.checks import Finding
from broker.gate.samples import Sample, from_json, to_json
from broker.gate.subjects import Subject, subject_of

SEEDS = (1, 2, 3)
"""Hash seeds that are tried."""

SECONDS = 30.0
"""What a process may take: a policy that does not end is refused."""


def differing(subject: Subject, samples: Sequence[Sample]) -> tuple[list[Sample], Finding | None]:
    """The samples that come out differently under another hash seed.

    Returns:
        Those samples; and what to say where the policy could not be asked at all.
    """
    order = json.dumps({"path": sys.path, "origin": subject.origin, "samples": [to_json(one) for one in samples]})
    processes = [_start(seed, order) for seed in SEEDS]
    try:
        answers = [_answer(process) for process in processes]
    except subprocess.TimeoutExpired:
        return [], Finding(f"it did not answer {len(samples)} samples within {SECONDS:g} s")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for answer in answers:
        if isinstance(answer, str):
            return [], Finding(f"in a process of its own it fails: {answer}")
    digests = zip(*(answer for answer in answers if not isinstance(answer, str)), strict=True)
    return [sample for sample, own in zip(samples, digests, strict=True) if len(set(own)) > 1], None


def hash_seeds(subject: Subject, samples: Sequence[Sample], rounds: int = 12) -> tuple[Sample, Finding] | None:
    """T4: another seed of Python's hashes gives the same bytes.

    Returns:
        What was found, on a sample made smaller; None: nothing was.
    """
    found, problem = differing(subject, samples)
    if problem is not None:
        return samples[0], problem
    if not found:
        return None
    smallest = min(found, key=lambda sample: sample.size)
    for _ in range(rounds):
        found, problem = differing(subject, list(smallest.smaller()))
        if problem is not None or not found:
            break
        smallest = min(found, key=lambda sample: sample.size)
    return smallest, Finding("it answers differently under another seed of Python's hashes", subject.compose(smallest))


def digest(subject: Subject, sample: Sample) -> str:
    """What a sample came out as, in short."""
    return hashlib.sha256(repr(subject.compose(sample)).encode()).hexdigest()


def _start(seed: int, order: str) -> subprocess.Popen[str]:
    # A file is read by all of them at once; a pipe would be filled for one after the other.
    with tempfile.TemporaryFile("w+") as given:
        given.write(order)
        given.seek(0)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "broker.gate.hashing"],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


def _answer(process: subprocess.Popen[str]) -> list[str] | str:
    """The digests, or why there are none."""
    out, problems = process.communicate(timeout=SECONDS)
    if process.returncode or not out:
        return (problems.strip().splitlines() or [f"it ends with {process.returncode}"])[-1][:300]
    answer: list[str] = json.loads(out.splitlines()[-1])
    return answer


def main() -> None:
    """The other process."""
    order = json.loads(sys.stdin.read())
    sys.path[:] = order["path"]
    # What a plugin prints must not stand among the digests.
    out, sys.stdout = sys.stdout, sys.stderr
    subject = subject_of(order["origin"])
    print(json.dumps([digest(subject, from_json(one)) for one in order["samples"]]), file=out)


if __name__ == "__main__":
    main()
