"""The Cranfield collection with what four real retrievers returned for each question, as it lies beside a checkout."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROVIDERS = ("bm25", "ctfidf", "dense", "title")
RUNS = ("same", "shard")
"""``same``: every retriever over the whole corpus. ``shard``: each over its own quarter, so that they share nothing."""
DEPTH = 20


@dataclass(frozen=True)
class Document:
    """One abstract; its content is what a frame holds and what a budget is charged for."""

    id: str
    title: str
    content: str

    @property
    def tokens(self) -> int:
        """Of the content, as DESIGN counts them."""
        return (len(self.content.encode()) + 3) // 4


@dataclass(frozen=True)
class Collection:
    """Everything that a replay needs.

    Attributes:
        documents: By id.
        questions: Question text by id.
        grades: By question id: grade by document id, higher is better; every one listed is evidence.
        runs: By run, question id and provider: (document id, native score), best first, at most :data:`DEPTH`.
    """

    documents: Mapping[str, Document]
    questions: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    runs: Mapping[str, Mapping[str, Mapping[str, list[tuple[str, float]]]]]


def load(folder: Path, depth: int = DEPTH) -> Collection:
    """Reads the folder ``evidence/cranfield``."""
    documents = {
        line["id"]: Document(line["id"], line["title"], f"{line['title']}\n{line['text']}")
        for line in _lines(folder / "corpus.jsonl")
    }
    grades: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text().splitlines():
        question, document, grade = line.split("\t")
        grades[question][document] = int(grade)
    return Collection(
        documents,
        {line["id"]: line["text"] for line in _lines(folder / "queries.jsonl")},
        dict(grades),
        {run: _run(folder / "runs", run, depth) for run in RUNS},
    )


def _run(folder: Path, run: str, depth: int) -> dict[str, dict[str, list[tuple[str, float]]]]:
    lanes: defaultdict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: {name: [] for name in PROVIDERS})
    for provider in PROVIDERS:
        for line in _lines(folder / f"{run}.{provider}.jsonl.gz"):
            if line["rank"] <= depth:
                lanes[line["query_id"]][provider].append((line["doc_id"], line["score"]))
    return dict(lanes)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from map(json.loads, file)
