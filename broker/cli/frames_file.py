"""Files of frames: JSON lines, one frame each, with the field names of :class:`~broker.core.frames.Frame`.

A file is read whole before anything is sent, so that one bad line sends nothing. :func:`read_frames` lets pass what the
broker judges (the range of a score, a digest's truth), and :func:`read_checked_frames` judges it beforehand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from broker.cli.errors import Failure
from broker.cli.options import nearest
from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, LaneEnd
from broker.core.scores import ScoreScale

_ANY = Grant(2**31, 2**62)
"""Room for every frame of a file: how many a lane may hold, only the broker knows."""

_NUMBERED_KIND = re.compile(r"kind-(0|-?[1-9][0-9]{0,9})")
"""How a kind is written that has no name here yet."""

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
    return [_on_line(path, number, _frame, record) for number, record in json_records(path)]


def read_checked_frames(path: Path, provider: str, scale: ScoreScale) -> list[Frame]:
    """As :func:`read_frames`, and each frame passes the checks that the broker will make of it.

    Raises:
        Failure: A line is wrong, or its frame would be dropped or take the provider for a liar.
        OSError: The file cannot be read.
    """
    intake = LaneIntake(provider, scale, _ANY)
    frames: list[Frame] = []
    for number, record in json_records(path):
        frame = _on_line(path, number, _frame, record)
        _on_line(path, number, lambda one: _check(one, intake), frame)
        frames.append(frame)
    return frames


def _check(frame: Frame, intake: LaneIntake) -> None:
    lie = intake.take([frame])
    if lie is not None:
        raise _BadLine(lie.told)
    alone = LaneIntake(intake.provider, intake.scale, _ANY)
    alone.take([frame])
    for slip in alone.close(LaneEnd.COMPLETE).slips:
        advice = "; --scale names another scale" if slip.reason.startswith("SCORE_") else ""
        raise _BadLine(f"{slip.reason}: {slip.detail}{advice}")


def read_order(path: Path) -> list[FrameRef]:
    """Names of frames, best first: JSON lines with ``provider`` and ``frame_id``, such as this tool's audit records.

    Raises:
        Failure: A line is wrong; the message names the file, the line and what is wrong with it.
        OSError: The file cannot be read.
    """
    return [_on_line(path, number, _ref, record) for number, record in json_records(path)]


def place_of(path: Path) -> str:
    """What a file is called in a message."""
    return "standard input" if str(path) == "-" else str(path)


def json_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The JSON objects of a file, ``-`` for standard input, each with the number of its line; blank lines are skipped.

    Raises:
        Failure: A line is no JSON object; the message names the file, the line and what is wrong with it.
        OSError: The file cannot be read.
    """
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
        raise Failure(f"{place_of(path)}, line {number}: {error}", code="INVALID_ARGUMENT", reason="BAD_LINE") from None


def _record(line: bytes) -> Mapping[str, Any]:
    try:
        record = json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _BadLine(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _BadLine("not a frame: nested too deeply") from None
    except _BadLine:
        raise
    except ValueError:
        # What is left that reading JSON raises: integers beyond what Python converts.
        raise _BadLine("not a frame: a number of too many digits") from None
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
        elif name == "kind":
            values[name] = _frame_kind(value)
        elif name == "token_cost":
            values[name] = _cost(value)
        else:
            values[name] = _text(name, value)
    return Frame(**values)


def _part(name: str, index: int, value: Any) -> Provenance | Relation:
    path = f"{name}[{index}]"
    if not isinstance(value, dict):
        raise _BadLine(f"{path} is not an object")
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


def _known(record: Mapping[str, Any], shape: type[Struct], path: str = "") -> None:
    names = shape.__struct_fields__
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


def _frame_kind(value: Any) -> str:
    text = _text("kind", value)
    numbered = _NUMBERED_KIND.fullmatch(text)
    if text not in KINDS and not (numbered and -(2**31) <= int(numbered[1]) < 2**31):
        raise _BadLine(f"'kind' is {text[:64]!a}, and may be {', '.join(KINDS[1:])}{nearest(text, KINDS[1:])}")
    return text


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
