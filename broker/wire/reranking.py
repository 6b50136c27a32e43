"""Reranking on the wire: what a request asks, what the audit says of it, and a reranker's own service.

A scorer is not the broker's own code: what it answers is read strictly, and its texts are cut to what an audit holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from contextbroker.v1 import composition_pb2, context_service_pb2
from contextbroker.v1 import rerank_service_pb2 as pb
from google.protobuf.message import DecodeError
from msgspec import Struct

from broker.core.audited import RerankOutcome, RerankRecord
from broker.core.request import DEFAULT_CANDIDATES, Rerank
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.batches import malformed
from broker.wire.strict import limit_number

MAX_CANDIDATES = 1000
"""Candidates of one rerank."""

MAX_CONTENT_BYTES = 8 * 1024
"""UTF-8 bytes of one candidate's content: more than any model of today reads of it."""

MAX_CONTENTS_BYTES = 2 * 1024 * 1024
"""UTF-8 bytes of all contents of one request, which keep it below gRPC's own limit of 4 MB."""

MAX_NAME = 64
"""Characters of what a scorer says of itself."""


class RerankText(Struct, frozen=True, gc=False):
    """A candidate as it crosses the wire.

    Attributes:
        title: Its title; untrusted.
        content: Its content, or the beginning of it; untrusted.
    """

    title: str
    content: str


class RerankAnswer(Struct, frozen=True, gc=False):
    """What a scorer answered.

    Attributes:
        scores: One for each candidate, in their order; None: it has none.
        name: What the scorer calls itself.
        version: Its version.
    """

    scores: tuple[float | None, ...]
    name: str = ""
    version: str = ""


def asked_message(asked: Rerank) -> context_service_pb2.Rerank:
    """The rerank that a request asks for, as a message.

    Raises:
        ValueError: A number that the wire cannot carry.
        TypeError: A value of another type.
    """
    return context_service_pb2.Rerank(
        name=asked.name,
        candidates=limit_number(asked.candidates),
        top_n=limit_number(asked.top_n),
        min_rerank_score=asked.min_score,
    )


def read_asked(message: context_service_pb2.Rerank) -> Rerank:
    """The inverse of :func:`asked_message`, with every default filled in."""
    return Rerank(
        name=message.name,
        candidates=message.candidates or DEFAULT_CANDIDATES,
        top_n=message.top_n or None,
        min_score=message.min_rerank_score if message.HasField("min_rerank_score") else None,
    )


def record_message(record: RerankRecord) -> composition_pb2.RerankRecord:
    """What the audit says of a rerank, as a message."""
    return composition_pb2.RerankRecord(
        name=record.name,
        version=record.version,
        candidates=record.candidates,
        scored=record.scored,
        unscored=record.unscored,
        top_n=record.top_n or 0,
        min_rerank_score=record.min_score,
        outcome=composition_pb2.RerankOutcome.Value(f"RERANK_OUTCOME_{record.outcome.value}"),
        message=record.message,
    )


def read_record(message: composition_pb2.RerankRecord) -> RerankRecord:
    """The inverse of :func:`record_message`."""
    applied = message.outcome == composition_pb2.RERANK_OUTCOME_APPLIED
    return RerankRecord(
        name=message.name,
        version=message.version,
        candidates=message.candidates,
        scored=message.scored,
        unscored=message.unscored,
        top_n=message.top_n or None,
        min_score=message.min_rerank_score if message.HasField("min_rerank_score") else None,
        outcome=RerankOutcome.APPLIED if applied else RerankOutcome.FALLBACK,
        message=message.message,
    )


def rerank_request(question: str, texts: Sequence[RerankText]) -> bytes:
    """What a scorer is asked, serialized; long contents are cut, at the end of a character.

    Args:
        question: As the providers were asked.
        texts: 1 to :data:`MAX_CANDIDATES`, best first.
    """
    room = min(MAX_CONTENT_BYTES, MAX_CONTENTS_BYTES // max(1, len(texts)))
    return pb.RerankRequest(
        question=question,
        candidates=[
            pb.RerankCandidate(index=index, title=text.title, content=_cut(text.content, room))
            for index, text in enumerate(texts)
        ],
    ).SerializeToString()


def read_rerank_request(data: bytes) -> tuple[str, list[RerankText]]:
    """The inverse of :func:`rerank_request`: the question, and the candidates by index.

    Raises:
        InvalidArgument: The bytes do not parse (``MALFORMED``); there are no candidates or too many, or their indices
            are not 0 to their number - 1, each once (``CANDIDATES``).
    """
    try:
        message = pb.RerankRequest.FromString(data)
    except DecodeError:
        raise malformed("RerankRequest") from None
    count = len(message.candidates)
    by_index = {candidate.index: RerankText(candidate.title, candidate.content) for candidate in message.candidates}
    if not 1 <= count <= MAX_CANDIDATES or by_index.keys() != set(range(count)):
        text = f"give 1 to {MAX_CANDIDATES} candidates, with the indices 0 to their number - 1, each once"
        raise InvalidArgument.of([FieldViolation("candidates", "CANDIDATES", text)])
    return message.question, [by_index[index] for index in range(count)]


def rerank_response(scores: Iterable[float | None], name: str = "", version: str = "") -> bytes:
    """What a scorer answers, serialized; a score that is None is left out.

    Args:
        scores: One for each candidate, in the order of their indices.
        name: What the scorer calls itself.
        version: Its version.
    """
    return pb.RerankResponse(
        scores=[pb.RerankScore(index=index, score=score) for index, score in enumerate(scores) if score is not None],
        name=name,
        version=version,
    ).SerializeToString()


def read_rerank_response(data: bytes, count: int) -> RerankAnswer:
    """The inverse of :func:`rerank_response`.

    Args:
        data: The answer.
        count: How many candidates were asked about.

    Returns:
        The answer; a candidate that was left out, or whose score is not a finite number, has none.

    Raises:
        InvalidArgument: The bytes do not parse (``MALFORMED``); an index is not a candidate's, or comes twice
            (``INDEX``): then no score can be trusted to be its candidate's.
    """
    try:
        message = pb.RerankResponse.FromString(data)
    except DecodeError:
        raise malformed("RerankResponse") from None
    scores: dict[int, float | None] = {}
    for place, entry in enumerate(message.scores):
        if entry.index >= count or entry.index in scores:
            problem = "comes twice" if entry.index in scores else f"is not one of {count} candidates"
            raise InvalidArgument.of([FieldViolation(f"scores[{place}].index", "INDEX", f"{entry.index} {problem}")])
        scores[entry.index] = entry.score if entry.HasField("score") and math.isfinite(entry.score) else None
    return RerankAnswer(
        tuple(scores.get(index) for index in range(count)), message.name[:MAX_NAME], message.version[:MAX_NAME]
    )


def _cut(text: str, room: int) -> str:
    # No character is less than a byte: what is beyond need not be encoded to be cut.
    return text[:room].encode()[:room].decode(errors="ignore")
