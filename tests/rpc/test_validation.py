"""Every broken constraint of the schema has a reason that stays what it is, the field's path, and advice."""

from __future__ import annotations

import math

import pytest
from contextbroker.v1 import context_service_pb2, provider_service_pb2
from google.protobuf import text_format
from google.protobuf.message import Message

from broker.errors import InvalidArgument
from broker.rpc.validation import MAX_VIOLATIONS, check, violations_of

GOOD = "goal: 'g' max_tokens: 1 "
COMPOSE = [
    ("max_tokens: 1", "goal", "GOAL"),
    (f"goal: '{'g' * 8193}' max_tokens: 1", "goal", "GOAL"),
    ("goal: 'g'", "max_tokens", "MAX_TOKENS"),
    (f"{GOOD} request_id: '{'r' * 129}'", "request_id", "REQUEST_ID"),
    (f"{GOOD} query_text: '{'q' * 8193}'", "query_text", "QUERY_TEXT"),
    (f"{GOOD} kinds: [{','.join(['1'] * 65)}]", "kinds", "KINDS"),
    (f"{GOOD} anchors: '{'a' * 2049}'", "anchors[0]", "ANCHORS"),
    (f"{GOOD} as_of: 'now'", "as_of", "AS_OF"),
    (f"{GOOD} providers: ['a', 'a']", "providers", "PROVIDER_LIST"),
    (f"{GOOD} providers: ['a', '*']", "providers[1]", "PROVIDER_NAME"),
    (f"{GOOD} required_providers: 'A'", "required_providers[0]", "PROVIDER_NAME"),
    (f"{GOOD} expect_pushes: ''", "expect_pushes[0]", "PROVIDER_NAME"),
    (f"{GOOD} inline_lanes {{ provider_id: 'N' }}", "inline_lanes[0].provider_id", "PROVIDER_NAME"),
    (f"{GOOD} inline_lanes {{ provider_id: 'n' scale {{ id: '' }} }}", "inline_lanes[0].scale.id", "SCALE"),
    (f"{GOOD} inline_lanes {{ provider_id: 'n' scale {{ id: 'a' min: nan }} }}", "inline_lanes[0].scale.min", "SCALE"),
    (f"{GOOD} collect_timeout {{ }}", "collect_timeout", "COLLECT_TIMEOUT"),
    (f"{GOOD} collect_timeout {{ seconds: -1 }}", "collect_timeout", "COLLECT_TIMEOUT"),
    (f"{GOOD} collect_timeout {{ nanos: -1 }}", "collect_timeout", "COLLECT_TIMEOUT"),
    (f"{GOOD} strategy {{ }}", "strategy.strategy", "STRATEGY"),
    (f"{GOOD} strategy {{ per_provider_quota {{ k: 0 }} }}", "strategy.per_provider_quota.k", "STRATEGY_PARAMS"),
    (
        f"{GOOD} strategy {{ trust_weighted {{ weights {{ provider_id: 'a' weight: -1 }} }} }}",
        "strategy.trust_weighted.weights[0].weight",
        "WEIGHT",
    ),
    (
        f"{GOOD} strategy {{ reciprocal_rank_fusion {{ weights {{ provider_id: '*' weight: 1 }} }} }}",
        "strategy.reciprocal_rank_fusion.weights[0].provider_id",
        "WEIGHT",
    ),
    (
        f"{GOOD} strategy {{ trust_weighted {{ default_weight: 2e6 }} }}",
        "strategy.trust_weighted.default_weight",
        "WEIGHT",
    ),
    (f"{GOOD} floors {{ provider_id: '*' scale_id: 'u' }}", "floors[0].provider_id", "FLOOR_PROVIDER_NAME"),
    (f"{GOOD} floors {{ provider_id: 'all' scale_id: 'u' }}", "floors[0].provider_id", "FLOOR_UNKNOWN_PROVIDER"),
    (f"{GOOD} floors {{ provider_id: 'a' scale_id: '' }}", "floors[0].scale_id", "FLOOR_SCALE"),
    (f"{GOOD} floors {{ provider_id: 'a' scale_id: 'u' value: nan }}", "floors[0].value", "FLOOR_NOT_FINITE"),
    (f"{GOOD} duplicates: 77", "duplicates", "ENUM_UNKNOWN"),
    (f"{GOOD} placement: 77", "placement", "ENUM_UNKNOWN"),
    (f"{GOOD} partial_lanes: 77", "partial_lanes", "ENUM_UNKNOWN"),
    (f"{GOOD} render {{ fence: 77 }}", "render.fence", "ENUM_UNKNOWN"),
    (f"{GOOD} render {{ question: '{'q' * 8193}' }}", "render.question", "QUESTION"),
]
HELLO = [
    ("provider_id: 'A' instance_id: '1'", "provider_id", "PROVIDER_NAME"),
    ("provider_id: 'default' instance_id: '1'", "provider_id", "PROVIDER_NAME"),
    ("provider_id: 'a'", "instance_id", "INSTANCE_ID"),
    ("provider_id: 'a' instance_id: '1' scale { id: 'x' max: nan }", "scale.max", "SCALE"),
    ("provider_id: 'a' instance_id: '1' scale { id: 'x' direction: 9 }", "scale.direction", "ENUM_UNKNOWN"),
    ("provider_id: 'a' instance_id: '1' max_in_flight: 10001", "max_in_flight", "FIELD_INVALID"),
]
CASES = [
    *((context_service_pb2.ComposeRequest, *case) for case in COMPOSE),
    *((provider_service_pb2.Hello, *case) for case in HELLO),
    (provider_service_pb2.PushHeader, "provider_id: 'a'", "request_id", "REQUEST_ID"),
    (provider_service_pb2.LaneEnd, "status: LANE_END_STATUS_COMPLETE", "query_id", "QUERY_ID"),
]


@pytest.mark.parametrize(("kind", "text", "field", "reason"), CASES)
def test_a_broken_constraint_has_its_field_and_reason(kind: type[Message], text: str, field: str, reason: str) -> None:
    message = text_format.Parse(text, kind())
    (found,) = violations_of(message)
    assert (found.field, found.reason) == (field, reason)
    with pytest.raises(InvalidArgument) as caught:
        check(message)
    assert caught.value.reason == reason


def test_frames_inside_inline_lanes_are_left_to_the_core() -> None:
    message = text_format.Parse(f"{GOOD} inline_lanes {{ provider_id: 'n' }}", context_service_pb2.ComposeRequest())
    message.inline_lanes[0].frames.add(score=math.nan)
    assert violations_of(message) == []


def test_all_violations_are_reported_at_once() -> None:
    message = context_service_pb2.ComposeRequest(providers=["*"])
    assert [found.field for found in violations_of(message)] == ["goal", "providers[0]", "max_tokens"]


def test_a_list_that_is_wrong_throughout_is_not_put_into_words_throughout() -> None:
    message = context_service_pb2.ComposeRequest(goal="g", max_tokens=1)
    for _ in range(10_000):
        message.strategy.precomputed.ids.add(provider_id="A", frame_id="f")
    found = violations_of(message)
    assert len(found) == MAX_VIOLATIONS + 1
    assert [v.field for v in found[:2]] == [f"strategy.precomputed.ids[{i}].provider_id" for i in range(2)]
    assert found[-1].message == "and 9000 more violations"


def test_a_wrong_value_is_shown_short_and_in_ascii() -> None:
    message = context_service_pb2.ComposeRequest(goal="g", max_tokens=1, providers=["\x1b[31m\u202e" + "x" * 500])
    (found,) = violations_of(message)
    assert found.message.isascii()
    assert "\x1b" not in found.message
    assert len(found.message) < 400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{GOOD} as_of: 'yesterday'", "wrong form, got 'yesterday'; give YYYY-MM-DDTHH:MM:SS[.f]Z"),
        ("max_tokens: 1", "is empty; say what the agent is trying to do, in 1 byte to 8 KiB"),
        (f"{GOOD} providers: 'Files'", "wrong form, got 'Files'; give one provider's name"),
    ],
)
def test_a_form_is_told_in_words_and_not_as_a_regular_expression(text: str, says: str) -> None:
    (found,) = violations_of(text_format.Parse(text, context_service_pb2.ComposeRequest()))
    assert found.message.startswith(says)


@pytest.mark.parametrize(("kind", "text", "field", "reason"), CASES)
def test_no_message_shows_a_regular_expression(kind: type[Message], text: str, field: str, reason: str) -> None:
    assert not any(
        "^" in found.message or "regex" in found.message for found in violations_of(text_format.Parse(text, kind()))
    )
