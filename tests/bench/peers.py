"""``python -m tests.bench.peers``: the pure step rank, drop duplicates, place, by this core and by known libraries.

In one process, on the same frames, without any network, model or rendering; each as a multiple of a plain sort of
every lane, interleaved, without duplicates, folded. One JSON line for each number of frames. The libraries come with
the extra ``bench``; those that are not installed are left out, and the line says which.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

from broker.core.duplicates import join_duplicates
from broker.core.entries import best_first
from broker.core.frames import Frame, content_digest, content_tokens
from broker.core.lanes import Candidate, Lane, LaneEnd
from broker.core.placement import place
from broker.core.ranking import rank
from broker.core.request import Duplicates, Placement
from broker.core.scores import UNIT, LocalScore
from broker.core.strategies import ReciprocalRankFusion, RoundRobin, Strategy

PROVIDERS = 8
REPEATS = 5

Frames = Sequence[Sequence[Frame]]
Step = Callable[[], Sequence[Any]]


def lanes_of(frames: int) -> list[list[Frame]]:
    """So many frames of all providers, best first; one in twenty has another lane's bytes."""
    lanes = []
    for provider in range(PROVIDERS):
        lane = []
        for number in range(frames // PROVIDERS):
            text = f"shared {number}" if number % 20 == 19 else f"{provider} {number}"
            lane.append(
                Frame(f"{provider}/{number}", text, text, 1.0 - number / frames, content_digest=content_digest(text))
            )
        lanes.append(lane)
    return lanes


def plain(lanes: Frames) -> Step:
    """The measure: sort, interleave, drop what was seen, fold."""

    def step() -> list[Frame]:
        ordered = [sorted(lane, key=lambda frame: -(frame.score or 0)) for lane in lanes]
        seen: set[str] = set()
        ranked = []
        for row in zip_longest(*ordered):
            for frame in row:
                if frame is not None and frame.content not in seen:
                    seen.add(frame.content)
                    ranked.append(frame)
        return folded(ranked)

    return step


def folded(ranked: Sequence[Any]) -> list[Any]:
    """The best at both edges."""
    return [*ranked[::2], *reversed(ranked[1::2])]


def core(lanes: Frames, strategy: Strategy) -> Step:
    """This core's: from checked frames to their places."""
    checked = [
        Lane(
            str(provider),
            UNIT,
            LaneEnd.COMPLETE,
            candidates=tuple(
                Candidate(
                    str(provider),
                    frame,
                    frame.content_digest,
                    LocalScore(str(provider), UNIT, frame.score or 0.0),
                    number,
                    content_tokens(len(frame.content)),
                )
                for number, frame in enumerate(lane)
            ),
        )
        for provider, lane in enumerate(lanes)
    ]

    def step() -> list[Any]:
        kept = join_duplicates([best_first(lane, order) for order, lane in enumerate(checked)], Duplicates.SAME_BYTES)
        ranked = [kept[index] for index in rank(strategy, kept)]
        return place(ranked, Placement.FOLD, lambda entry: entry.ref)

    return step


def langchain(lanes: Frames) -> Step:
    """LangChain: EnsembleRetriever's fusion, then LongContextReorder."""
    ensemble = importlib.import_module("langchain_classic.retrievers.ensemble").EnsembleRetriever
    reorder = importlib.import_module("langchain_community.document_transformers").LongContextReorder()
    document = importlib.import_module("langchain_core.documents").Document
    documents = [[document(page_content=frame.content, id=frame.id) for frame in lane] for lane in lanes]
    # Its fusion asks no retriever; an instance would want some.
    shape = SimpleNamespace(retrievers=documents, weights=[1 / PROVIDERS] * PROVIDERS, c=60, id_key=None)
    return lambda: reorder.transform_documents(ensemble.weighted_reciprocal_rank(shape, documents))


def llamaindex(lanes: Frames) -> Step:
    """LlamaIndex: QueryFusionRetriever's fusion, then LongContextReorder."""
    fusion = importlib.import_module("llama_index.core.retrievers").QueryFusionRetriever
    reorder = importlib.import_module("llama_index.core.postprocessor").LongContextReorder()
    schema = importlib.import_module("llama_index.core.schema")
    nodes = [[(schema.TextNode(text=frame.content, id_=frame.id), frame.score) for frame in lane] for lane in lanes]

    def step() -> Sequence[Any]:
        # It writes its own scores into what it is given, so that each run needs them anew.
        results = {
            (str(provider), 0): [schema.NodeWithScore(node=node, score=score) for node, score in lane]
            for provider, lane in enumerate(nodes)
        }
        return reorder.postprocess_nodes(fusion._reciprocal_rerank_fusion(SimpleNamespace(), results))

    return step


def haystack(lanes: Frames) -> Step:
    """Haystack: DocumentJoiner's fusion, then LostInTheMiddleRanker."""
    joiner = importlib.import_module("haystack.components.joiners").DocumentJoiner("reciprocal_rank_fusion")
    ranker = importlib.import_module("haystack.components.rankers").LostInTheMiddleRanker()
    document = importlib.import_module("haystack").Document
    documents = [[document(content=frame.content, score=frame.score) for frame in lane] for lane in lanes]
    return lambda: ranker.run(documents=joiner.run(documents=documents)["documents"])["documents"]


def ranx(lanes: Frames) -> Step:
    """ranx: its fusion of runs, then a fold; it drops duplicates by id, which here is the digest."""
    library = importlib.import_module("ranx")
    scores = [{"q": {frame.content_digest: frame.score for frame in lane}} for lane in lanes]

    def step() -> Sequence[Any]:
        fused = library.fuse([library.Run(run) for run in scores], method="rrf")
        return folded(list(fused.run["q"]))

    return step


PEERS: dict[str, Callable[[Frames], Step]] = {
    "core round_robin": lambda lanes: core(lanes, RoundRobin()),
    "core reciprocal_rank_fusion": lambda lanes: core(lanes, ReciprocalRankFusion()),
    "LangChain": langchain,
    "LlamaIndex": llamaindex,
    "Haystack": haystack,
    "ranx": ranx,
}


def compared(frames: int, *, repeats: int = REPEATS) -> dict[str, Any]:
    """One line: milliseconds of the plain step, and everyone's as multiples of it."""
    lanes = lanes_of(frames)
    measure = plain(lanes)
    steps: dict[str, Step] = {}
    missing = []
    for name, make in PEERS.items():
        try:
            steps[name] = make(lanes)
        except ImportError:
            missing.append(name)
    best = dict.fromkeys(["plain", *steps], float("inf"))
    for _ in range(repeats):
        # In turn, so that what disturbs a run disturbs everyone's.
        for name, step in {"plain": measure, **steps}.items():
            began = time.process_time()
            placed = step()
            best[name] = min(best[name], time.process_time() - began)
            assert placed
    return {
        "peers": frames,
        "plain_ms": round(best["plain"] * 1000, 3),
        "multiples": {name: round(best[name] / best["plain"], 2) for name in steps},
        "not_installed": missing,
    }


def main() -> None:
    """Prints a line for each number of frames."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("frames", nargs="*", type=int, default=[500, 5000, 50_000])
    for frames in parser.parse_args().frames:
        print(json.dumps(compared(frames)), flush=True)


if __name__ == "__main__":
    main()
