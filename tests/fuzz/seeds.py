"""Whole messages of every kind, for fuzzing to start from: what is near to right reaches deepest."""

from __future__ import annotations

from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import strategy_pb2

from broker.core.frames import Frame, Provenance, Relation, content_digest
from broker.core.scores import Direction, ScoreScale
from broker.wire import sessions
from broker.wire.batches import join_batch
from broker.wire.events import Batch, Detached, Hello, LaneEnded
from broker.wire.frames import frame_message
from broker.wire.pushes import PushHeader, push_header, push_part
from broker.wire.requests import InlineLane
from tests.rpc.peers import compose_message

SCALE = ScoreScale("bm25", 0.0, float("inf"), Direction.HIGHER_IS_BETTER)

FRAMES = (
    Frame(id="a", title="a title", content="some text", score=0.5),
    Frame(
        id="b",
        title="t\u200d\u202e",
        content="x" * 300,
        score=-0.0,
        kind="kind-77",
        citation_label="⟦label⟧",
        uri="file:///a",
        provenance=(Provenance("file", "file:///a", "1-2", "sha256:" + "0" * 64, "read", "me"),) * 3,
        relations=(Relation("cites", "file:///b", "B"),),
        valid_from="2026-01-01T00:00:00Z",
        valid_to="2026-01-02T00:00:00.5Z",
        recorded_at="2026-01-01T00:00:00Z",
        token_cost=75,
        content_digest=content_digest("x" * 300),
    ),
    Frame(id="", title="", content="", score=None),
)


def _requests() -> tuple[bytes, ...]:
    plain = compose_message()
    full = compose_message(
        request_id="r",
        query_text="what?",
        kinds=("doc", "fact"),
        anchors=("file:///a",),
        providers=("a", "b"),
        required_providers=("a",),
        expect_pushes=("p",),
        inline_lanes=(InlineLane("mine", SCALE, FRAMES), InlineLane("other", frames=FRAMES[:1])),
        collect_timeout=1.5,
        max_frames=5,
        max_frames_per_provider=2,
        as_of="2026-01-01T00:00:00Z",
        question="why?",
    )
    full.floors.add(provider_id="a", scale_id="unit", value=0.5)
    full.rerank.name = "lexical"
    full.rerank.top_n = 3
    strategies = (
        strategy_pb2.RankingStrategy(trust_weighted=strategy_pb2.TrustWeighted()),
        strategy_pb2.RankingStrategy(plugin=strategy_pb2.Plugin(name="nope")),
        strategy_pb2.RankingStrategy(precomputed=strategy_pb2.Precomputed(name="mine")),
    )
    requests = [plain, full]
    for strategy in strategies:
        named = pb.ComposeRequest()
        named.CopyFrom(full)
        named.strategy.CopyFrom(strategy)
        requests.append(named)
    return tuple(request.SerializeToString() for request in requests)


_ENCODED = tuple(frame_message(frame).SerializeToString() for frame in FRAMES)

SEEDS: dict[str, tuple[bytes, ...]] = {
    "compose": _requests(),
    "attach": tuple(
        map(
            sessions.attach_request,
            (
                Hello("a", "one", scale=SCALE, kinds=("doc",), max_in_flight=3),
                Batch("q", join_batch("q", _ENCODED)),
                LaneEnded("q", True, "why"),
                Detached(),
            ),
        )
    ),
    "batch": (join_batch("q", _ENCODED), join_batch("", ())),
    "frame": _ENCODED,
    "push": (push_header(PushHeader("a", "r", SCALE)), push_part(_ENCODED)),
    "answer": (
        pb.ComposeResponse(accepted=pb.Accepted(composition_id="c", request_id="r")).SerializeToString(),
        pb.ComposeResponse(
            part={"placed": [{"position": 1, "total": 1, "frame": frame_message(FRAMES[1])}]}
        ).SerializeToString(),
        pb.ComposeResponse(part={"completed": {"composition_id": "c", "preamble": "p"}}).SerializeToString(),
    ),
}
"""By target; none is empty."""
