"""A composition is streamed in messages of at most 512 KiB, in order, and comes back as it was."""

from __future__ import annotations

import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import AuditRow, AuditSummary, BudgetRecord, LaneSummary, StrategyRecord
from broker.core.composition import Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import Frame, FrameRef, Provenance
from broker.core.lanes import LaneEnd, LaneUpdate
from broker.errors import Internal
from broker.wire.compositions import (
    FILL_BYTES,
    KINDS,
    MAX_MESSAGE_BYTES,
    CompositionReader,
    encoded_end,
    encoded_parts,
    response_of,
)
from broker.wire.encoded_audits import encoded_audit
from broker.wire.updates import Accepted, accepted_message, lane_updates_message
from tests.wire import values

KIB = 1024
DIGEST = "sha256:" + "0" * 64


def streamed(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> list[pb.ComposeResponse]:
    messages = [response_of(part.joined()) for part in encoded_parts(composition, max_bytes)]
    audit = encoded_audit(composition.summary, composition.usage)
    messages.append(response_of(encoded_end(composition, audit, max_bytes)))
    return [pb.ComposeResponse.FromString(message) for message in messages]


def kinds(message: pb.ComposeResponse) -> list[str]:
    """What there is in a part, in its order."""
    return [field.name for field, _ in message.part.ListFields()]


def received(messages: list[pb.ComposeResponse], request_id: str = "") -> Composition:
    reader = CompositionReader()
    reader.take(accepted_message(Accepted("", request_id, ())))
    for message in messages:
        reader.take(message)
    return reader.result()


def made(placed: tuple[Placed, ...] = (), rows: int = 0, citations: int = 0, **changes: object) -> Composition:
    summary = AuditSummary(
        strategy=StrategyRecord(name="round_robin", version="1", params={}, compares_raw_scores=False),
        placement="FOLD",
        duplicates="SAME_BYTES",
        budget=BudgetRecord(max_tokens=1, usable=1, preamble=0, closing=0, frames=0),
        lanes=(),
        floors=(),
        rows=rows,
        reasons={},
    )
    whole = Composition(
        placed=placed,
        citations=tuple(Citation(f"c{i}", FrameRef("a", f"f{i}"), i + 1, DIGEST) for i in range(citations)),
        audit=tuple(
            AuditRow(provider="a", frame_id=f"f{i}", content_digest=DIGEST, included=False) for i in range(rows)
        ),
        summary=summary,
        usage=Usage(UsageFigures(), {}),
        preamble="p",
        closing="c",
    )
    return replace(whole, **changes)


def block(
    position: int, total: int, *, content: int = 10, rendered: int = 10, lent: int = 0, vouchers: int = 1
) -> Placed:
    own = Provenance("file", f"own-{position}")
    steps = (own, *(Provenance("file", "u" * KIB, str(i)) for i in range(lent)))
    return Placed(
        position=position,
        total=total,
        provider="a",
        local_rank=position,
        rank=position,
        frame=Frame(f"f{position}", "t", "x" * content, provenance=steps),
        rendered="y" * rendered,
        cost=1,
        citation_label="l",
        vouchers=tuple(FrameRef(f"p{i}", "f" * 500) for i in range(vouchers)),
    )


@given(values.compositions())
def test_a_composition_comes_back_as_it_was(composition: Composition):
    assert received(streamed(composition), composition.request_id) == composition


@settings(max_examples=25)
@given(values.compositions(), st.integers(200, 2000))
def test_the_order_is_placed_citations_audit_completed(composition: Composition, max_bytes: int):
    *body, end = map(kinds, streamed(composition, max_bytes))
    seen = [kind for part in body for kind in part]
    assert seen == sorted(seen, key=KINDS.index)
    assert all(body)
    assert end == ["completed"]


@settings(max_examples=25)
@given(values.compositions(), st.integers(200, 2000), st.sets(st.sampled_from(KINDS)))
def test_a_part_may_be_had_with_some_of_its_kinds_alone(composition: Composition, max_bytes: int, wanted: set[str]):
    for part in encoded_parts(composition, max_bytes):
        left = composition_pb2.Part.FromString(part.joined())
        for kind in set(KINDS) - wanted:
            left.ClearField(kind)
        assert part.joined([kind for kind in KINDS if kind in wanted]) == left.SerializeToString(deterministic=True)


def test_a_small_answer_is_one_part_and_its_end():
    composition = made(tuple(block(i + 1, 15, content=500, rendered=700) for i in range(15)), rows=15, citations=15)
    assert list(map(kinds, streamed(composition))) == [["placed", "citations", "audit"], ["completed"]]


@pytest.mark.parametrize(
    "composition",
    [
        pytest.param(made(tuple(block(i + 1, 40, content=70 * KIB, rendered=70 * KIB) for i in range(40))), id="large"),
        pytest.param(made(tuple(block(i + 1, 10_000) for i in range(10_000))), id="many"),
        pytest.param(made(rows=50_000, citations=30_000), id="rows"),
        pytest.param(made((block(1, 1, content=190 * KIB, rendered=256 * KIB, vouchers=60),)), id="one at its limits"),
    ],
)
def test_no_message_is_too_large_and_nothing_is_lost(composition: Composition):
    messages = streamed(composition)
    assert max(message.ByteSize() for message in messages) <= MAX_MESSAGE_BYTES
    assert received(messages) == composition


def test_messages_are_filled():
    placed = tuple(block(i + 1, 100, content=5000, rendered=5000) for i in range(100))
    *sizes, _, _ = [m.ByteSize() for m in streamed(made(placed, rows=50_000, citations=3000))]
    assert FILL_BYTES * 0.9 < min(sizes) <= max(sizes) <= FILL_BYTES


def test_what_other_copies_lent_a_frame_is_cut_before_a_message_grows_too_large():
    huge = made((block(1, 2, lent=900), block(2, 2, lent=3, vouchers=5000)))
    messages = streamed(huge)
    assert max(message.ByteSize() for message in messages) <= MAX_MESSAGE_BYTES
    first, second = received(messages).placed
    lent = first.frame.provenance
    assert lent == huge.placed[0].frame.provenance[: len(lent)]
    assert len(lent) > 400
    assert second.frame.provenance[0] == Provenance("file", "own-2")
    assert second.vouchers == huge.placed[1].vouchers[: len(second.vouchers)]
    assert len(second.vouchers) > 900


def test_an_end_that_is_too_large_leaves_out_the_callers_own_list_and_says_so():
    order = [["a", "f" * 100]] * 10_000
    composition = made()
    record = replace(composition.summary.strategy, params={"ids": order, "name": "mine"})
    composition = replace(composition, summary=replace(composition.summary, strategy=record))
    end = streamed(composition)[-1]
    assert end.ByteSize() <= MAX_MESSAGE_BYTES
    params = received([end]).summary.strategy.params
    assert params == {"ids": "10000 entries, left out for their size", "name": "mine"}


def test_an_end_of_many_lanes_shortens_what_they_said():
    lanes = tuple(LaneSummary(provider=f"p{i}", end=LaneEnd.FAILED, message="m" * 256) for i in range(2500))
    composition = made()
    composition = replace(composition, summary=replace(composition.summary, lanes=lanes))
    end = streamed(composition)[-1]
    assert end.ByteSize() <= MAX_MESSAGE_BYTES
    back = received([end]).summary.lanes
    assert [lane.provider for lane in back] == [lane.provider for lane in lanes]
    assert {lane.message for lane in back} == {"m" * 32}


def test_taking_a_message_gives_the_placed_frames_that_it_brought():
    composition = made(tuple(block(i + 1, 3) for i in range(3)), citations=1, rows=1)
    reader = CompositionReader()
    brought = [reader.take(message) for message in streamed(composition)]
    assert brought == [composition.placed, ()]


@pytest.mark.parametrize("left_out", ["completed", "audit", "placed"])
def test_an_answer_with_a_part_missing_is_broken(left_out: str):
    composition = made((block(1, 2, content=300 * KIB), block(2, 2, content=300 * KIB)), rows=2)
    messages = streamed(composition)
    gone = next(m for m in messages if left_out in kinds(m))
    with pytest.raises(Internal) as error:
        received([message for message in messages if message is not gone])
    assert error.value.reason == "ANSWER_BROKEN"


def test_parts_joined_are_one_part_and_stand_beside_what_was_told_before():
    composition = made((block(1, 2), block(2, 2)), rows=3, citations=2)
    parts = [part.joined() for part in encoded_parts(composition)]
    end = encoded_end(composition, encoded_audit(composition.summary, composition.usage))
    told = accepted_message(Accepted("", "r", ())).SerializeToString()
    whole = pb.ComposeResponse.FromString(told + response_of(b"".join([*parts, end])))
    reader = CompositionReader()
    assert reader.take(whole) == composition.placed
    assert reader.result() == received(streamed(composition), "r")


def test_nothing_may_follow_the_end():
    messages = streamed(made())
    with pytest.raises(Internal, match="follows its end"):
        received([*messages, messages[-1]])


def test_what_is_heard_while_collecting_is_no_part_of_the_composition():
    composition = made((block(1, 1),), rows=1)
    update = lane_updates_message([LaneUpdate("a", None, 1)])
    assert received([update, *streamed(composition)]) == composition


def test_whole_numbers_of_the_parameters_are_whole_when_they_come_back():
    composition = made()
    record = replace(composition.summary.strategy, params={"k": 60, "w": {"a": 1.5}, "ids": (("a", "f"),)})
    composition = replace(composition, summary=replace(composition.summary, strategy=record))
    params = received(streamed(composition)).summary.strategy.params
    assert repr(params["k"]) == "60"
    assert params["w"] == {"a": 1.5}
    assert params["ids"] == [["a", "f"]]


def test_what_has_no_order_on_the_wire_comes_back_by_name():
    names = [f"k{i:02}" for i in range(20)]
    params = {name: dict.fromkeys(reversed(names), 1) for name in reversed(names)}
    composition = made()
    summary = replace(
        composition.summary,
        strategy=replace(composition.summary.strategy, params=params),
        reasons=dict.fromkeys(reversed(names), 1),
    )
    back = received(streamed(replace(composition, summary=summary))).summary
    shown = back.strategy.params
    assert [list(found) for found in (shown, *shown.values(), back.reasons)] == [names] * 22


def test_scores_stand_in_audit_rows_and_in_no_other_place():
    fields = {
        f"{message.name}.{field.name}"
        for message in (
            composition_pb2.Placed.DESCRIPTOR,
            composition_pb2.Citation.DESCRIPTOR,
            composition_pb2.AuditRow.DESCRIPTOR,
        )
        for field in message.fields
        if "score" in field.name
    }
    assert fields == {"AuditRow.score", "AuditRow.rerank_score"}
