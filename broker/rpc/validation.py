"""The schema's own constraints, as violations with reasons that stay what they are.

protovalidate names the rule that was broken; callers act on what the field is for. So the reason goes by the field's
path, and by the rule only where one field can be wrong in two ways that matter.
"""

from __future__ import annotations

import re
from typing import Any

import protovalidate
from google.protobuf.message import Message

from broker.errors import FieldViolation, InvalidArgument

_validator = protovalidate.Validator()

_NAME = "give one provider's name: lower-case letters, digits, '.', '_', '-', at most 63, no pattern"
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
        (r"collect_timeout", "COLLECT_TIMEOUT", "give a time above zero, or leave it out"),
        (r"strategy\.strategy", "STRATEGY", "name exactly one policy, or leave the strategy out"),
        (r"strategy\..*weight.*", "WEIGHT", "weights are finite, 0 to 1,000,000, each for one provider"),
        (r"strategy\..*", "STRATEGY_PARAMS", "see ListStrategies for what the policy takes"),
        (r"floors", "FLOORS", "give at most 256, one for each provider"),
        (r"floors\[\d+\]\.provider_id", "FLOOR_PROVIDER_NAME", f"a floor is for one provider; {_NAME}"),
        (r"floors\[\d+\]\.scale_id", "FLOOR_SCALE", "give the id of that provider's own scale; see ListProviders"),
        (r"floors\[\d+\]\.value", "FLOOR_NOT_FINITE", "give a finite number on that provider's scale"),
        (r"render\.question", "QUESTION", "give at most 8 KiB"),
        (r"(.*\.)?provider_id", "PROVIDER_NAME", _NAME),
        (r"(.*\.)?instance_id", "INSTANCE_ID", "give this replica's name, 1 to 128 bytes"),
        (r"(.*\.)?query_id", "QUERY_ID", "give the query_id of the query that is answered"),
        (r".*", "FIELD_INVALID", ""),
    )
)


def check(message: Message, prefix: str = "") -> None:
    """Holds a message against its schema's constraints.

    Args:
        message: The message; frames inside it are not looked at.
        prefix: Path of the message in its request.

    Raises:
        InvalidArgument: With every violation at once, in the schema's order.
    """
    violations = violations_of(message, prefix)
    if violations:
        raise InvalidArgument.of(violations)


def violations_of(message: Message, prefix: str = "") -> list[FieldViolation]:
    """Every constraint that a message breaks, in the schema's order; see :func:`check`."""
    return [_violation(found, prefix) for found in _validator.collect_violations(message)]


def _violation(found: protovalidate.Violation, prefix: str) -> FieldViolation:
    proto = found.proto
    path = prefix + _path(proto)
    bare = _path(proto)
    reason, advice = next((r, a) for pattern, r, a in _REASONS if pattern.fullmatch(bare))
    rule = proto.rule_id or ""
    if rule == "enum.defined_only":
        reason, advice = "ENUM_UNKNOWN", _ENUM
    elif rule == "string.not_in" and reason == "FLOOR_PROVIDER_NAME":
        reason, advice = "FLOOR_UNKNOWN_PROVIDER", "no provider can have this name; a floor is for one provider"
    text = f"{proto.message or rule}{_shown(found.field_value)}"
    return FieldViolation(path, reason, f"{text}; {advice}" if advice else text)


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
