"""The one message that an AttachRequest holds, cut out without parsing it."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from broker.errors import InvalidArgument
from broker.wire import schema
from broker.wire.batches import malformed

MAX_HELLO_BYTES = 16 * 1024
"""Bytes of a Hello, several times what the contract allows, and of whatever stands beside the one message of a request.
A list of half a million parts takes a tenth of a second to read."""

HELLO, BATCH, LANE_END, DETACH = 0x0A, 0x12, 0x1A, 0x22
"""The tags that the messages begin with."""

_NAMES = {HELLO: "hello", BATCH: "frame_batch", LANE_END: "lane_end", DETACH: "detach"}


def sole_part(data: bytes) -> tuple[int, bytes]:
    """The one message of a serialized ``AttachRequest``, after its tag.

    Raises:
        InvalidArgument: It does not hold exactly one, or the bytes are no ``AttachRequest`` (``MALFORMED``).
    """
    length, start = _first_length(data)
    # One part and nothing beside it, as most are.
    if start and start + length == len(data) and data[0] in _NAMES:
        return data[0], data[start:]
    return _sole_beside(data)


def _sole_beside(data: bytes) -> tuple[int, bytes]:
    """As :func:`sole_part`, whatever stands beside it."""
    if _is_crowded(data):
        raise InvalidArgument("MALFORMED", "an AttachRequest holds exactly one message, and this one holds more")
    try:
        twin = schema.AttachRequest.FromString(data)
    except DecodeError:
        raise malformed("AttachRequest") from None
    parts = [(tag, part) for tag, name in _NAMES.items() for part in getattr(twin, name)]
    if len(parts) != 1:
        text = f"an AttachRequest holds exactly one message, and this one holds {len(parts)}"
        raise InvalidArgument("MALFORMED", text)
    return parts[0]


def _is_crowded(data: bytes) -> bool:
    """Whether more stands beside its first part than a message of one part has room for; found without parsing it."""
    if len(data) <= MAX_HELLO_BYTES:
        return False
    length, start = _first_length(data)
    return not start or data[0] not in _NAMES or len(data) - length - start > MAX_HELLO_BYTES


def _first_length(data: bytes) -> tuple[int, int]:
    """The length that follows the first tag, of one byte, and where it ends; 0 and 0 where it is none of 35 bits."""
    length = 0
    for place, byte in enumerate(data[1:6]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length, place + 2
    return 0, 0
