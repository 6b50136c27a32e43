"""Refusing what would otherwise be passed over: fields that this version does not know, and lists without measure."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from broker.errors import FieldViolation, InvalidArgument, ResourceExhausted

MAX_NAMED_BYTES = 64 * 1024
"""Bytes of unknown fields up to which they are looked at one by one; beyond, the refusal names none."""


def refuse_unknown_fields(message: Message) -> None:
    """Refuses a message that holds, at any depth, a field the contract does not know.

    Raises:
        InvalidArgument: ``UNKNOWN_FIELD``, with the path of the message that holds the first one and its number.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    excess = message.ByteSize() - known.ByteSize()
    if excess == 0:
        return
    path, number = next(_unknown(message, ""), ("", 0)) if excess <= MAX_NAMED_BYTES else ("", 0)
    field = f"field {number}" if number else "some fields"
    text = f"{field} of {path or 'the request'} is not known to this version; leave it out, or ask a newer broker"
    where = ".".join(filter(None, (path, str(number) if number else "")))
    raise InvalidArgument.of([FieldViolation(where, "UNKNOWN_FIELD", text)])


def refuse_crowds(message: Message, limit: int, path: str = "") -> None:
    """Refuses a message with a list of more entries than ``limit``, before anyone walks it.

    The message itself and its single sub-messages are looked at; the entries of lists are not.

    Raises:
        ResourceExhausted: ``COUNT_EXCEEDED``, naming the list.
    """
    for field, value in message.ListFields():
        name = f"{path}{field.name}"
        if field.is_repeated:
            if len(value) > limit:
                raise crowded(name, len(value), limit)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            refuse_crowds(value, limit, f"{name}.")


def limit_number(value: int | None) -> int:
    """A limit as a field of the wire, where 0 stands for none.

    Raises:
        ValueError: It is below 1, which would read as no limit.
    """
    if value is not None and value < 1:
        raise ValueError(f"{value} is below 1; leave it out for no limit")
    return value or 0


def crowded(name: str, count: int, limit: int) -> ResourceExhausted:
    """The error for a list with too many entries."""
    text = f"{name} has {count} entries, and {limit} are taken; send fewer"
    return ResourceExhausted(
        "COUNT_EXCEEDED", text, violations=[FieldViolation(name, "COUNT_EXCEEDED", text)], quota=name
    )


def _unknown(message: Message, path: str) -> Iterator[tuple[str, int]]:
    unknown = UnknownFieldSet(message)
    if len(unknown):
        yield path, unknown[0].field_number
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        name = f"{path}.{field.name}" if path else field.name
        if field.is_repeated:
            for i, item in enumerate(value):
                yield from _unknown(item, f"{name}[{i}]")
        else:
            yield from _unknown(value, name)
