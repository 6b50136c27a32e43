"""A request comes back from the wire as it was; what this version would drop in silence is refused with its path."""

from __future__ import annotations

import math
import struct

import pytest
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given

from broker.core.frames import Frame
from broker.core.lanes import Unreadable
from broker.core.request import BudgetSplit, CompositionRequest, Duplicates, Fence, PartialLanes, Placement, RenderMode
from broker.core.scores import UNIT
from broker.core.strategies import Precomputed, RoundRobin, ScoreDescending, TrustWeighted
from broker.errors import BrokerError, InvalidArgument, ResourceExhausted
from broker.wire.requests import (
    MAX_INLINE_LANES,
    MAX_LISTED,
    ComposeCall,
    InlineLane,
    compose_request,
    read_compose_request,
)
from tests.wire import values


def read(message: pb.ComposeRequest | bytes, *, max_frame_bytes: int = 10**6, max_inline_frames: int = 10_000):
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return read_compose_request(data, max_frame_bytes=max_frame_bytes, max_inline_frames=max_inline_frames)


def refusal(message: pb.ComposeRequest | bytes, **limits: int) -> BrokerError:
    with pytest.raises(BrokerError) as error:
        read(message, **limits)
    return error.value


def call(**changes) -> ComposeCall:
    return ComposeCall(**{"goal": "g", "composition": CompositionRequest(max_tokens=100), **changes})


@given(values.calls)
def test_a_call_comes_back_as_it_was(made: ComposeCall):
    message, back = read(compose_request(made))
    assert back == made
    assert len(message.inline_lanes) == len(made.inline_lanes)
    assert not any(lane.frames for lane in message.inline_lanes)


def test_what_is_left_out_takes_the_defaults_of_the_contract():
    _, back = read(pb.ComposeRequest(goal="g", max_tokens=7))
    assert back == ComposeCall(goal="g", composition=CompositionRequest(max_tokens=7))
    composition = back.composition
    assert (composition.duplicates, composition.placement) == (Duplicates.SAME_BYTES, Placement.FOLD)
    assert (composition.partial_lanes, composition.fence) == (PartialLanes.KEEP, Fence.SEALED)
    assert (composition.max_frames, composition.max_frames_per_provider) == (None, None)
    assert (composition.max_frames_per_source, composition.fold_min_tokens) == (None, 4096)
    assert (composition.mode, composition.budget_split) == (RenderMode.FENCED, BudgetSplit.FULL)
    assert (composition.tokenizer, composition.safety_factor) == ("bytes/4", 1.0)
    assert back.collect_timeout is None


def test_the_operators_default_applies_only_where_no_policy_was_named():
    assert call().composed_under(ScoreDescending()).strategy == ScoreDescending()
    assert call(strategy=RoundRobin()).composed_under(ScoreDescending()).strategy == RoundRobin()
    named = call(composition=CompositionRequest(max_tokens=1, strategy=ScoreDescending()))
    assert named.composition.strategy == RoundRobin()
    assert call().composed_under(RoundRobin(), "theirs").tokenizer == "theirs"
    assert call(tokenizer="mine").composed_under(RoundRobin(), "theirs").tokenizer == "mine"
    assert call(tokenizer="bytes/4").composed_under(RoundRobin(), "theirs").tokenizer == "bytes/4"


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ({"query_text": "q", "render": pb.RenderOptions(restate_question=True, question="r")}, "r"),
        ({"query_text": "q", "render": pb.RenderOptions(restate_question=True)}, "q"),
        ({"render": pb.RenderOptions(restate_question=True)}, "g"),
        ({"query_text": "q", "render": pb.RenderOptions(question="r")}, ""),
    ],
)
def test_the_question_restated_is_the_first_that_was_given(fields: dict, question: str):
    assert read(pb.ComposeRequest(goal="g", **fields))[1].composition.question == question


@pytest.mark.parametrize("data", [b"\x12\x05g", b"\x12\x01\xff", b"\x12\x03\xed\xa0\x80", b"\x52\x02\x1a\x05", b"\x07"])
def test_bytes_that_are_no_request_are_malformed(data: bytes):
    error = refusal(data)
    assert isinstance(error, InvalidArgument)
    assert error.reason == "MALFORMED"


def test_a_request_that_nests_too_deep_is_malformed():
    value = b""
    for _ in range(200):
        # A Struct's list in a list in a list, for ever.
        value = b"\x32" + _length(b"\x0a" + _length(value) + value) + b"\x0a" + _length(value) + value
        if len(value) > 100_000:
            break
    entry = b"\x0a\x01x\x12" + _length(value) + value
    params = b"\x0a" + _length(entry) + entry
    plugin = b"\x0a\x01p\x12" + _length(params) + params
    strategy = b"\x3a" + _length(plugin) + plugin
    assert refusal(b"\x7a" + _length(strategy) + strategy).reason == "MALFORMED"


def _length(data: bytes) -> bytes:
    number, out = len(data), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def test_an_unknown_field_is_refused_unless_it_stands_in_a_frame():
    assert refusal(b"\x12\x01g\x98\x06\x01").reason == "UNKNOWN_FIELD"
    assert refusal(b"\x12\x01g\x52\x03\x98\x06\x01").violations[0].field == "inline_lanes[0].99"
    _, back = read(b"\x12\x01g\x52\x0b\x0a\x01m\x1a\x06\x0a\x01i\x98\x06\x01")
    assert back.inline_lanes == (InlineLane("m", UNIT, (Frame("i", "", "", kind="unspecified"),)),)


def test_an_inline_frame_that_cannot_be_read_is_a_slip_of_that_frame():
    good = b"\x0a\x01i"
    lane = b"\x0a\x01m" + b"".join(b"\x1a" + _length(f) + f for f in (good, b"\xff", b"\x0a\x01\xff", good + b"x" * 0))
    _, back = read(b"\x12\x01g\x52" + _length(lane) + lane)
    frames = back.inline_lanes[0].frames
    assert [type(frame) for frame in frames] == [Frame, Unreadable, Unreadable, Frame]
    _, back = read(b"\x12\x01g\x52" + _length(lane) + lane, max_frame_bytes=2)
    assert [frame.reason for frame in back.inline_lanes[0].frames if isinstance(frame, Unreadable)] == [
        "FRAME_TOO_LARGE",
        "FRAME_MALFORMED",
        "FRAME_TOO_LARGE",
        "FRAME_TOO_LARGE",
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"duplicates": 9}, "duplicates"),
        ({"placement": 9}, "placement"),
        ({"partial_lanes": 9}, "partial_lanes"),
        ({"render": pb.RenderOptions(fence=9)}, "render.fence"),
        ({"render": pb.RenderOptions(mode=9)}, "render.mode"),
        ({"budget_split": 9}, "budget_split"),
        ({"snapshots": 9}, "snapshots"),
    ],
)
def test_a_value_that_is_not_listed_is_refused_and_named(fields: dict, path: str):
    error = refusal(pb.ComposeRequest(goal="g", **fields))
    assert isinstance(error, InvalidArgument)
    assert [(v.field, v.reason) for v in error.violations] == [(path, "ENUM_UNKNOWN")]
    assert "9" in error.message


def test_a_direction_that_is_not_listed_is_refused_with_its_lane():
    request = pb.ComposeRequest(goal="g")
    request.inline_lanes.add(provider_id="a")
    request.inline_lanes.add(provider_id="b").scale.MergeFromString(b"\x0a\x01s\x20\x09")
    assert refusal(request).violations[0].field == "inline_lanes[1].scale.direction"


def test_an_unknown_kind_is_asked_for_by_its_number():
    assert read(pb.ComposeRequest(goal="g", kinds=[1, 99]))[1].kinds == ("snippet", "kind-99")


def test_a_provider_that_has_two_parts_of_the_budget_is_refused():
    twice = [{"provider_id": "a", "weight": 1}, {"provider_id": "a", "weight": 2}]
    error = refusal(pb.ComposeRequest(goal="g", budget_weights=twice))
    assert [(v.field, v.reason) for v in error.violations] == [("budget_weights[1].provider_id", "WEIGHT")]


def test_counts_are_checked_before_anything_is_parsed():
    many = refusal(b"\x52\x00" * (MAX_INLINE_LANES + 1))
    assert isinstance(many, ResourceExhausted)
    assert (many.reason, many.quota) == ("COUNT_EXCEEDED", "inline_lanes")
    # The frames do not even parse, and still it is their number that is refused.
    lane = b"\x1a\x01\xff" * 6
    frames = refusal(b"\x52" + _length(lane) + lane, max_inline_frames=5)
    assert (frames.reason, frames.quota) == ("COUNT_EXCEEDED", "inline_lanes.frames")
    assert refusal(b"\x82\x01\x00" * (MAX_LISTED + 1)).quota == "floors"
    assert refusal(b"\x22\x91\x4e" + b"\x01" * (MAX_LISTED + 1)).quota == "kinds"


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"goal": "\ud800"}, "goal", "TEXT_MALFORMED"),
        ({"goal": 5}, "goal", "FIELD_INVALID"),
        ({"anchors": ("a", "\udfff")}, "anchors", "TEXT_MALFORMED"),
        ({"anchors": "abc"}, "anchors", "FIELD_INVALID"),
        ({"kinds": ("snippet", "poem")}, "kinds[1]", "KIND_UNKNOWN"),
        ({"composition": CompositionRequest(max_tokens=-1)}, "max_tokens", "OUT_OF_RANGE"),
        ({"composition": CompositionRequest(max_tokens=2**32)}, "max_tokens", "OUT_OF_RANGE"),
        ({"composition": CompositionRequest(max_tokens=1, max_frames=0)}, "max_frames", "OUT_OF_RANGE"),
        ({"composition": CompositionRequest(max_tokens=1, question="\ud800")}, "render.question", "TEXT_MALFORMED"),
        ({"composition": CompositionRequest(max_tokens=1, duplicates="SAME_BYTES")}, "duplicates", "FIELD_INVALID"),
        ({"collect_timeout": math.nan}, "collect_timeout", "OUT_OF_RANGE"),
        ({"collect_timeout": math.inf}, "collect_timeout", "OUT_OF_RANGE"),
        ({"collect_timeout": 1e40}, "collect_timeout", "OUT_OF_RANGE"),
        ({"strategy": TrustWeighted({"a": "much"})}, "strategy", "FIELD_INVALID"),
        ({"strategy": Precomputed((("a", "\ud800"),))}, "strategy", "TEXT_MALFORMED"),
        (
            {"inline_lanes": (InlineLane("m", frames=(Frame("i", "t", "c"), Frame("i", "t", "\ud800"))),)},
            "inline_lanes[0].frames[1]",
            "TEXT_MALFORMED",
        ),
        (
            {"inline_lanes": (InlineLane("m", frames=(Unreadable(1, "", ""),)),)},
            "inline_lanes[0].frames[0]",
            "FIELD_INVALID",
        ),
    ],
)
def test_what_the_wire_cannot_carry_is_refused_where_it_is_sent(changes: dict, field: str, reason: str):
    with pytest.raises(InvalidArgument) as error:
        compose_request(call(**changes))
    assert [(v.field, v.reason) for v in error.value.violations] == [(field, reason)]


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, 10**9), (1, 2**31 - 1), (1, -1), (-1, 1), (0, -(2**31)), (2**63 - 1, 0)]
)
def test_a_time_that_is_no_duration_is_refused_and_not_worked_out(seconds: int, nanos: int):
    error = refusal(pb.ComposeRequest(goal="g", collect_timeout={"seconds": seconds, "nanos": nanos}))
    assert [(v.field, v.reason) for v in error.violations] == [("collect_timeout", "COLLECT_TIMEOUT")]


def test_floors_that_are_no_numbers_are_carried_for_the_broker_to_judge():
    nan = struct.pack("<d", math.nan)
    _, back = read(b"\x82\x01\x0c\x0a\x01a\x19" + nan)
    assert math.isnan(back.composition.floors[0].value)
