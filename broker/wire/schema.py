"""Twins of the contract's messages that hold their parts as bytes.

A twin has ``repeated bytes`` at the field number where the public message has sub-messages. On the wire both look the
same, so a twin can count a message's parts, cut them out, and put them together again, without parsing one of them. The
twins live in a descriptor pool of their own, under names of their own: nothing that reflects on the public contract
sees them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "contextbroker.twin"

# Each field: its name, its number, whether it is repeated, whether it is text and not bytes.
_TWINS: dict[str, tuple[tuple[str, int, bool, bool], ...]] = {
    "FrameBatch": (("query_id", 1, False, True), ("frames", 2, True, False)),
    "BatchName": (("query_id", 1, False, True),),
    "PushBatch": (("frames", 1, True, False),),
    "InlineLane": (("frames", 3, True, False),),
    "ComposeRequest": (("inline_lanes", 10, True, False),),
    "AttachRequest": (
        ("hello", 1, True, False),
        ("frame_batch", 2, True, False),
        ("lane_end", 3, True, False),
        ("detach", 4, True, False),
    ),
    "AttachResponse": (("query", 2, True, False),),
    "ReportAttributionRequest": (("frames", 2, True, False),),
    "PushRequest": (("header", 1, True, False), ("batch", 2, True, False)),
    # A frame whose content need be no UTF-8: how a text that no frame can hold is sent for the broker to refuse.
    "LooseFrame": (("content", 4, False, False),),
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="contextbroker/twin.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _TWINS.items():
        message = file.message_type.add(name=name)
        for field, number, repeated, text in fields:
            message.field.add(
                name=field,
                number=number,
                label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
                type=_FIELD.TYPE_STRING if text else _FIELD.TYPE_BYTES,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _TWINS}


# Classes made at run time have no static type.
_CLASSES = _classes()
FrameBatch: Any = _CLASSES["FrameBatch"]
BatchName: Any = _CLASSES["BatchName"]
PushBatch: Any = _CLASSES["PushBatch"]
InlineLane: Any = _CLASSES["InlineLane"]
ComposeRequest: Any = _CLASSES["ComposeRequest"]
AttachRequest: Any = _CLASSES["AttachRequest"]
AttachResponse: Any = _CLASSES["AttachResponse"]
PushRequest: Any = _CLASSES["PushRequest"]
ReportAttributionRequest: Any = _CLASSES["ReportAttributionRequest"]
_LooseFrame: Any = _CLASSES["LooseFrame"]


def loose_frame(content: str) -> bytes:
    """An encoded frame whose content may hold lone surrogates; with one of them, no reader accepts it."""
    data: bytes = _LooseFrame(content=content.encode("utf-8", "surrogatepass")).SerializeToString()
    return data
