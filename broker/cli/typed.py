"""What a field of a request is called by the person who typed the command: ``--floor fqa:unit=0.5``, ``GOAL``.

A broker speaks of its contract's fields, for programs; a person has options and their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.core.frames import FrameRef
from broker.core.request import Floor

_TLS = re.compile(r"(?<![\w./-])tls_(ca|cert|key)(?![\w/-]|\.\w)")
"""A keyword of the clients that has an option of the same name; no part of a file's name or of a configuration key."""

_SHOWN = 64
"""Characters of a value that are shown."""

Words = Mapping[str, tuple[str, str]]
"""By a pattern for a field's path: the option, and the parameter whose value is shown behind it, if any. A number in
the path is the value's place among those of an option that may be repeated."""

_CONNECTION: Words = {
    r"address": ("--address", "address"),
    r"tls_ca": ("--tls-ca", "tls_ca"),
    r"tls_cert": ("--tls-cert", "tls_cert"),
    r"tls_key": ("--tls-key", "tls_key"),
    r"token_file": ("--token-file", "token_file"),
    r"token": ("CONTEXT_BROKER_TOKEN", ""),
}

QUERY: Words = {
    **_CONNECTION,
    r"goal": ("GOAL", ""),
    r"query_text": ("--query-text", ""),
    r"request_id": ("--request-id", "request_id"),
    r"providers(?:\[(\d+)\])?": ("--provider", "providers"),
    r"required_providers(?:\[(\d+)\])?": ("--require", "required"),
    r"expect_pushes(?:\[(\d+)\])?": ("--expect-push", "pushes"),
    r"floors(?:\[(\d+)\].*)?": ("--floor", "floors"),
    r"inline_lanes\[(\d+)\]\.scale.*": ("--inline-scale of", "inline"),
    r"inline_lanes(?:\[(\d+)\].*)?": ("--inline", "inline"),
    r"kinds.*": ("--kind", ""),
    r"anchors(?:\[(\d+)\])?": ("--anchor", "anchors"),
    r"as_of": ("--as-of", "as_of"),
    r"max_tokens": ("--max-tokens", "max_tokens"),
    r"tokenizer": ("--tokenizer", "tokenizer"),
    r"safety_factor": ("--safety-factor", "safety_factor"),
    r"budget_split": ("--budget-split", "budget_split"),
    r"budget_weights(?:\[(\d+)\].*)?": ("--budget-weight", "budget_weights"),
    r"max_frames": ("--max-frames", "max_frames"),
    r"max_frames_per_provider": ("--max-frames-per-provider", "max_frames_per_provider"),
    r"max_frames_per_source": ("--max-frames-per-source", "max_frames_per_source"),
    r"collect_timeout": ("--timeout", "timeout"),
    r"strategy\.plugin\.name": ("--plugin", "plugin"),
    r"strategy\.plugin\.params.*": ("--param", ""),
    r"strategy\.precomputed\.ids.*": ("--ids or --order", ""),
    r"strategy\.precomputed\.name": ("--order-name", "order_name"),
    r"strategy\.\w+\.weights(?:\[(\d+)\].*)?": ("--weight", "weights"),
    r"strategy\.\w+\.default_weight": ("--default-weight", "default_weight"),
    r"strategy\.\w+\.k": ("--k", "k"),
    r"strategy.*": ("--strategy", "strategy"),
    r"rerank\.candidates": ("--rerank-candidates", "rerank_candidates"),
    r"rerank\.top_n": ("--rerank-top", "rerank_top"),
    r"rerank\.min_rerank_score": ("--rerank-min", "rerank_min"),
    r"rerank.*": ("--rerank", "rerank"),
    r"render\.(?:restate_)?question": ("--restate-question", ""),
    r"render\.mode": ("--mode", "mode"),
}
"""What ``query`` calls the fields of a ``ComposeRequest``."""

PUSH: Words = {
    **_CONNECTION,
    r"(?:header\.)?provider_id": ("PROVIDER", "provider"),
    r"(?:header\.)?request_id": ("REQUEST_ID", "request_id"),
    r"(?:header\.)?scale.*": ("--scale", ""),
}
"""What ``push`` calls the fields of a ``PushRequest``."""

PROVIDE: Words = {
    **_CONNECTION,
    r"(?:hello\.)?(?:provider_id|provider|name)": ("--name", "other_name"),
    r"(?:hello\.)?instance_id": ("--instance-id", "instance_id"),
}
"""What ``provide`` calls the fields of a ``Hello``."""

COMPOSITIONS: Words = {
    **_CONNECTION,
    r"made_from": ("--since", ""),
    r"made_before": ("--until", ""),
    r"provider(?:_id)?": ("--provider", "provider"),
    r"frame_id": ("--frame", "frame_id"),
    r"document": ("--document", "document"),
    r"tenant": ("--tenant", "tenant"),
    r"reason": ("--excluded-for", "reason"),
    r"composition_id": ("ID", "composition_id"),
}
"""What ``compositions`` calls the fields of its requests."""

_COMMANDS: Mapping[str, str] = {
    "ListProviders": "`context-broker providers`",
    "ListStrategies": "`context-broker strategies`",
    "no_providers": "--no-providers",
    "inline_lanes": "--inline",
    "expect_pushes": "--expect-push",
}


def typed(field: str, words: Words, values: Mapping[str, Any]) -> str:
    """A field as it was typed, value included; the field's own path where no option stands for it.

    Args:
        field: Its path, such as ``floors[0].provider_id``.
        words: The command's words.
        values: The command's parameters.
    """
    for pattern, (option, name) in words.items():
        match = re.fullmatch(pattern, field)
        if match is not None:
            value = _text(_chosen(values.get(name), match))
            return f"{option} {value}".rstrip()
    return field


def in_commands(text: str) -> str:
    """A message with the commands and options of a person in the place of the methods and fields of a program."""
    for method, command in _COMMANDS.items():
        text = text.replace(method, command)
    return _TLS.sub(r"--tls-\1", text)


def _chosen(value: object, match: re.Match[str]) -> object:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    index = match[1] if match.re.groups else None
    return value[int(index)] if index is not None and int(index) < len(value) else None


def _text(value: object) -> str:
    match value:
        case Floor(provider, scale_id, least):
            text = f"{provider}:{scale_id}={least:g}"
        case FrameRef(provider, frame_id):
            text = f"{provider}:{frame_id}"
        case (str(name), Path()):
            text = name
        case (str(name), float(number)):
            text = f"{name}={number:g}"
        case str() | Path() | int():
            text = str(value)
        case float():
            text = f"{value:g}"
        case _:
            text = ""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
