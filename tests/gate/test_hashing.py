"""Other processes with other hash seeds answer the same, or the policy is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from broker.gate import hashing
from broker.gate.hashing import differing, digest, hash_seeds
from broker.gate.samples import samples, to_json
from broker.gate.subjects import Subject, built_in
from tests.gate import mutants

SETS = samples(8)


@pytest.mark.parametrize("name", ["round_robin", "reciprocal_rank_fusion"])
def test_what_is_right_is_the_same_under_every_seed(name: str):
    assert differing(built_in(name), SETS) == ([], None)
    assert hash_seeds(built_in(name), SETS) is None


def test_hashes_that_decide_ties_are_found_and_made_small():
    sample, finding = hash_seeds(mutants.M15, SETS)
    assert "Python's hashes" in finding.says
    assert sample.size <= 3
    assert len({frame.id for lane in sample.lanes for frame in lane.frames}) <= sample.size


def test_a_process_answers_with_the_digests_of_this_one():
    subject = built_in("precomputed")
    order = {"path": sys.path, "origin": subject.origin, "samples": [to_json(sample) for sample in SETS]}
    done = subprocess.run(
        [sys.executable, "-m", "broker.gate.hashing"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [digest(subject, sample) for sample in SETS]


def test_a_process_that_fails_says_why():
    subject = Subject(name="x", strategies=built_in("round_robin").strategies, origin="subject:no_such_module:X")
    found, finding = differing(subject, SETS)
    assert found == []
    assert "in a process of its own it fails: ModuleNotFoundError" in finding.says


def test_a_process_that_leaves_without_an_answer_is_said_to(monkeypatch):
    leaving = (sys.executable, "-c", "import os; os._exit(0)")
    real = subprocess.Popen
    monkeypatch.setattr(hashing.subprocess, "Popen", lambda _, **kept: real(leaving, **kept))
    found, finding = differing(built_in("round_robin"), SETS)
    assert found == []
    assert finding.says == "in a process of its own it fails: it ends with 0"


def test_a_process_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(hashing, "SECONDS", 0.01)
    _, finding = hash_seeds(built_in("round_robin"), SETS)
    assert "did not answer 8 samples" in finding.says
    assert finding.before is None
