"""The schema's own constraints, as violations with reasons that stay what they are.

protovalidate names the rule that was broken; callers act on what the field is for. So the reason goes by the field's
path, and by the rule only where one field can be wrong in two ways that matter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeVar

import protovalidate
from google.protobuf.message import DecodeError, Message

from broker.errors import FieldViolation, InvalidArgument
from broker.wire.batches import malformed

Parsed = TypeVar("Parsed", bound=Message)

_validator = protovalidate.Validator()

_NAME = "give one provider's name: lower-case letters, digits, '.', '_', '-', at most 63, no pattern"
_ACROSS = "across providers use ranks, quotas or weights, or trim after a reranker"
_ENUM = "give one of the values that the contract lists"

_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), reason, advice)
    for pattern, reason, advice in (
        (r"request_id", "REQUEST_ID", "give 1 to 128 bytes"),
        (r"goal", "GOAL", "say what the agent is trying to do, in 1 byte to 8 KiB"),
        (r"query_text", "QUERY_TEXT", "give at most 8 KiB, or nothing to use the goal"),
        (r"(hello\.)?kinds", "KINDS", "give at most 64"),
        (r"anchors(\[\d+\])?", "ANCHORS", "give at most 64 URIs of at most 2 KiB"),
        (r"as_of", "AS_OF", "give YYYY-MM-DDTHH:MM:SS[.f]Z"),
        (r"(providers|required_providers|expect_pushes)", "PROVIDER_LIST", "give each at most once, at most 256"),
        (r"(providers|required_providers|expect_pushes)\[\d+\]", "PROVIDER_NAME", _NAME),
        (r"inline_lanes", "INLINE_LANES", "give at most 256"),
        (r"(.*\.)?scale\..*", "SCALE", "give a name, and two ends of which neither is NaN"),
        (r"max_tokens", "MAX_TOKENS", "give the tokens that the whole prompt may take, at least 1"),
        (r"tokenizer", "TOKENIZER_UNKNOWN", "give the name of a tokenizer of this broker, at most 63 bytes"),
        (r"safety_factor", "SAFETY_FACTOR", "give 1 to 4, or leave it out"),
        (r"budget_weights.*", "WEIGHT", "weights are finite, above 0, each for one provider"),
        (r"collect_timeout", "COLLECT_TIMEOUT", "give a time above zero, or leave it out"),
        (r"strategy\.strategy", "STRATEGY", "name exactly one policy, or leave the strategy out"),
        (r"strategy\..*weight.*", "WEIGHT", "weights are finite, 0 to 1,000,000, each for one provider"),
        (r"strategy\..*", "STRATEGY_PARAMS", "see ListStrategies for what the policy takes"),
        (r"floors", "FLOORS", "give at most 256, one for each provider"),
        (r"floors\[\d+\]\.provider_id", "FLOOR_PROVIDER_NAME", f"a floor is for one provider; {_NAME}; {_ACROSS}"),
        (r"floors\[\d+\]\.scale_id", "FLOOR_SCALE", "give the id of that provider's own scale; see ListProviders"),
        (r"floors\[\d+\]\.value", "FLOOR_NOT_FINITE", "give a finite number on that provider's scale"),
        (r"render\.question", "QUESTION", "give at most 8 KiB"),
        (r"rerank\.name", "RERANKER_UNKNOWN", "give the name of a reranker of this broker, 1 to 63 bytes"),
        (r"rerank\..*", "RERANK_PARAMS", "candidates are at most 1000, and min_rerank_score is a finite number"),
        (r"seconds", "SECONDS", "give 1 to 604800, which is a week"),
        (r"tenant", "TENANT", "give a tenant's name, at most 63 bytes, or nothing for your own"),
        (r"(.*\.)?provider_id", "PROVIDER_NAME", _NAME),
        (r"(.*\.)?instance_id", "INSTANCE_ID", "give this replica's name, 1 to 128 bytes"),
        (r"(.*\.)?query_id", "QUERY_ID", "give the query_id of the query that is answered"),
        (r".*", "FIELD_INVALID", ""),
    )
)


_FORMS = frozenset({"string.pattern", "string.min_bytes", "string.min_len"})
"""Rules of which protovalidate cites the text, such as a regular expression; the advice says it for people."""

_SUBSCRIPT = re.compile(r"\[[0-9]+\]")

MAX_VIOLATIONS = 1000
"""Violations of one message that are put into words, which is more than an answer has room for: a list may break a
constraint ten thousand times. One more says how many there were beyond them."""


def parsed(kind: type[Parsed], data: bytes) -> Parsed:
    """The message that bytes are.

    Raises:
        InvalidArgument: They do not parse (``MALFORMED``), or break a constraint.
    """
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise malformed(kind.DESCRIPTOR.name) from None
    check(message)
    return message


def check(message: Message) -> None:
    """Holds a message against its schema's constraints; frames inside it are not looked at.

    Raises:
        InvalidArgument: With all violations at once, as :func:`violations_of` gives them.
    """
    violations = violations_of(message)
    if violations:
        raise InvalidArgument.of(violations)


def violations_of(message: Message) -> list[FieldViolation]:
    """The constraints that a message breaks, in the schema's order; see :data:`MAX_VIOLATIONS`."""
    found = _validator.collect_violations(message)
    if not found:
        return []
    violations = [_violation(each) for each in found[:MAX_VIOLATIONS]]
    if len(found) > MAX_VIOLATIONS:
        violations.append(FieldViolation("", "MORE", f"and {len(found) - MAX_VIOLATIONS} more violations"))
    return violations


def _violation(found: protovalidate.Violation) -> FieldViolation:
    proto = found.proto
    path = _path(proto)
    reason, advice = _reason(_SUBSCRIPT.sub("[0]", path))
    rule = proto.rule_id or ""
    if rule == "enum.defined_only":
        reason, advice = "ENUM_UNKNOWN", _ENUM
    elif rule == "string.not_in" and reason == "FLOOR_PROVIDER_NAME":
        reason, advice = "FLOOR_UNKNOWN_PROVIDER", "no provider can have this name; a floor is for one provider"
    if rule in _FORMS:
        text = f"wrong form{_shown(found.field_value)}" if found.field_value else "is empty"
    else:
        text = f"{proto.message or rule}{_shown(found.field_value)}"
    return FieldViolation(path, reason, f"{text}; {advice}" if advice else text)


@lru_cache(maxsize=256)
def _reason(path: str) -> tuple[str, str]:
    """The reason and the advice for a path, whatever its subscripts."""
    return next((reason, advice) for pattern, reason, advice in _REASONS if pattern.fullmatch(path))


def _path(proto: Any) -> str:
    parts: list[str] = []
    for element in proto.field.elements if proto.field is not None else ():
        part = element.field_name or str(element.field_number)
        if element.subscript is not None:
            part += f"[{element.subscript.value}]"
        parts.append(part)
    return ".".join(parts)


def _shown(value: Any) -> str:
    """A wrong value as a message may show it: short, and with nothing in it that a terminal would act on."""
    if isinstance(value, str):
        short = value if len(value) <= 64 else value[:64] + "…"
        return f", got {short!a}"
    if isinstance(value, int | float):
        return f", got {value!r}"
    return ""
