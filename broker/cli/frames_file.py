"""Files of frames: JSON lines, one frame each, with the field names of :class:`~broker.core.frames.Frame`.

A file is read whole before anything is sent, so that one bad line sends nothing. Values that only the broker may judge
(the range of a score, a digest's truth) pass as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from broker.cli.errors import Failure
from broker.cli.options import nearest
from broker.core.frames import Frame, FrameRef, Provenance, Relation

_REQUIRED = ("id", "title", "content")
_PARTS: Mapping[str, type[Provenance | Relation]] = {"provenance": Provenance, "relations": Relation}
_PART_REQUIRED = {Provenance: "type", Relation: "rel"}


class _BadLine(ValueError):
    """What is wrong with one line."""


def read_frames(path: Path) -> list[Frame]:
    """The frames of a file, ``-`` for standard input, in the order of its lines; blank lines are skipped.

    Raises:
        Failure: A line is wrong; the message names the file, the line and what is wrong with it.
        OSError: The file cannot be read.
    """
    return [_on_line(path, number, _frame, record) for number, record in _records(path)]


def read_order(path: Path) -> list[FrameRef]:
    """Names of frames, best first: JSON lines with ``provider`` and ``frame_id``, such as this tool's audit records.

    Raises:
        Failure: A line is wrong; the message names the file, the line and what is wrong with it.
        OSError: The file cannot be read.
    """
    return [_on_line(path, number, _ref, record) for number, record in _records(path)]


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield number, _on_line(path, number, _record, line)


def _lines(path: Path) -> Iterable[bytes]:
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    return data.split(b"\n")


def _on_line(path: Path, number: int, read: Any, what: Any) -> Any:
    try:
        return read(what)
    except _BadLine as error:
        place = "standard input" if str(path) == "-" else str(path)
        raise Failure(f"{place}, line {number}: {error}", code="INVALID_ARGUMENT", reason="BAD_LINE") from None


def _record(line: bytes) -> Mapping[str, Any]:
    try:
        record = json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _BadLine(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _BadLine("not a frame: nested too deeply") from None
    if not isinstance(record, dict):
        raise _BadLine("a line is one JSON object")
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise _BadLine(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return record


def _no_constant(text: str) -> float:
    raise _BadLine(f"{text} is not a JSON number")


def _frame(record: Mapping[str, Any]) -> Frame:
    _known(record, Frame)
    for name in _REQUIRED:
        if record.get(name, "") == "":
            raise _BadLine(f"{name!r} is missing or empty")
    values: dict[str, Any] = {}
    for name, value in record.items():
        if name in _PARTS:
            values[name] = tuple(_part(name, index, item) for index, item in enumerate(_list(name, value)))
        elif name == "score":
            values[name] = _score(value)
        elif name == "token_cost":
            values[name] = _cost(value)
        else:
            values[name] = _text(name, value)
    return Frame(**values)


def _part(name: str, index: int, value: Any) -> Provenance | Relation:
    path = f"{name}[{index}]"
    if not isinstance(value, dict):
        raise _BadLine(f"{path} is no object")
    shape = _PARTS[name]
    _known(value, shape, f"{path}.")
    required = _PART_REQUIRED[shape]
    if not value.get(required):
        raise _BadLine(f"'{path}.{required}' is missing or empty")
    return shape(**{key: _text(f"{path}.{key}", item) for key, item in value.items()})


def _ref(record: Mapping[str, Any]) -> FrameRef:
    for name in ("provider", "frame_id"):
        if not record.get(name):
            raise _BadLine(f"{name!r} is missing or empty")
    return FrameRef(_text("provider", record["provider"]), _text("frame_id", record["frame_id"]))


def _known(record: Mapping[str, Any], shape: type, path: str = "") -> None:
    names = [field.name for field in fields(shape)]
    for name in record:
        if name not in names:
            raise _BadLine(f"{path + name!r} is not a field{nearest(name, names)} (fields: {', '.join(names)})")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _BadLine(f"{name!r} must be a text, not {_kind(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _BadLine(f"{name!r} holds half of a surrogate pair")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _BadLine(f"{name!r} must be a list, not {_kind(value)}")
    return value


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BadLine(f"'score' must be a number, not {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _BadLine("'score' is too large for a number of 64 bits") from None


def _cost(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise _BadLine(f"'token_cost' must be a whole number from 0 to 4294967295, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), f"the number {value}" if isinstance(value, int | float) else type(value).__name__)
