"""Every vector of an independent implementation comes out as it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.core.audited import Reason
from broker.core.frames import Provenance, content_tokens
from broker.core.placement import fold
from broker.core.request import Duplicates
from broker.core.strategies import PerProviderQuota, Precomputed, RoundRobin, ScoreDescending, Strategy, TrustWeighted
from tests.core.building import composed, frame, lane
from tests.core.test_packing import costing, taken

COUNTS = {"ranking": 41, "packing": 31, "duplicates": 5, "fold": 10, "budget_tokens": 7}


@pytest.fixture(scope="module")
def vectors(shared_dir: Path) -> dict[str, list[dict]]:
    return json.loads((shared_dir / "vectors" / "ordering.json").read_text())


def strategy_of(spec: dict[str, dict]) -> Strategy:
    ((name, params),) = spec.items()
    match name:
        case "round_robin":
            return RoundRobin()
        case "per_provider_quota":
            return PerProviderQuota(params["k"])
        case "trust_weighted":
            return TrustWeighted(params["weights"], params["default_weight"])
        case "precomputed":
            return Precomputed(tuple(map(tuple, params["order"])))
        case "score_descending":
            return ScoreDescending()
    raise AssertionError(name)


def compose_vector(frames: list[tuple[str, object]], strategy: dict, **request):
    """Composes (provider, frame) pairs and gives the composition and its ranked [provider, id] pairs."""
    providers = dict.fromkeys(provider for provider, _ in frames)
    lanes = [lane(name, [one for provider, one in frames if provider == name]) for name in providers]
    composition = composed(*lanes, strategy=strategy_of(strategy), **request)
    rows = sorted((row for row in composition.audit if row.rank), key=lambda row: row.rank)
    return composition, [[row.provider, row.frame_id] for row in rows]


def test_the_vectors_are_all_there(vectors):
    assert {name: len(cases) for name, cases in vectors.items()} == COUNTS


@pytest.mark.parametrize("index", range(COUNTS["ranking"]))
def test_ranking(vectors, index):
    case = vectors["ranking"][index]
    # These cases have no duplicates: every frame's bytes are its own.
    frames = [(provider, frame(name, score, f"{provider} {name}")) for provider, name, score in case["frames"]]
    _, order = compose_vector(frames, case["strategy"])
    assert order == case["ranked"], case["why"]


@pytest.mark.parametrize("index", range(COUNTS["packing"]))
def test_packing(vectors, index):
    case = vectors["packing"][index]
    chosen = taken(costing(*case["costs"]), case["budget"])
    assert chosen == case["included"]
    assert sum(case["costs"][number] for number in chosen) == case["tokens_used"]


@pytest.mark.parametrize("index", range(COUNTS["duplicates"]))
def test_duplicates(vectors, index):
    case = vectors["duplicates"][index]
    frames = []
    for number, one in enumerate(case["frames"]):
        content = one["content_key"] or f"bytes of its own, {number}"
        provenance = tuple(Provenance("file", uri, place or "") for uri, place in one["file_regions"])
        frames.append((one["provider_id"], frame(one["id"], one["score"], content, provenance=provenance)))
    composition, order = compose_vector(frames, case["strategy"], duplicates=Duplicates(case["mode"]))
    assert order == case["ranked"]
    dropped = [
        {"frame": [row.provider, row.frame_id], "kept": [row.duplicate_of.provider, row.duplicate_of.frame_id]}
        for row in composition.audit
        if row.reason == Reason.DUPLICATE
    ]
    assert sorted(dropped, key=str) == sorted(case["dropped"], key=str)


@pytest.mark.parametrize("index", range(COUNTS["fold"]))
def test_fold(vectors, index):
    case = vectors["fold"][index]
    assert fold(range(case["n"])) == case["order"]


@pytest.mark.parametrize("index", range(COUNTS["budget_tokens"]))
def test_budget_tokens(vectors, index):
    case = vectors["budget_tokens"][index]
    assert content_tokens(len(case["text"].encode())) == case["tokens"]
