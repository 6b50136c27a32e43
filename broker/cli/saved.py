"""Saved compositions: the records that ``query --json`` writes, in a file.

There is one format. What ``query --save FILE`` writes and what ``query --json`` prints are the same lines, so that
either may be explained, replayed or held against an answer. So may what ``compositions export`` prints of one: the
broker's own record, which begins with ``recorded`` in the place of ``accepted`` and has no times.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from broker.cli.asked import Asked, read_asked
from broker.cli.decode import read_audit, read_composition, read_placed, read_update
from broker.cli.encode import Record
from broker.cli.errors import Failure
from broker.cli.fields import Fields, WrongField
from broker.cli.frames_file import json_records, place_of
from broker.cli.text import clean
from broker.core.audited import AuditRow
from broker.core.composition import Composition, Placed
from broker.core.lanes import LaneUpdate
from broker.core.rebuilding import Contradiction, rebuilt_lanes, recorded_strategy

_EXPECTED = "it is none that 'query --save FILE', 'query --json' or 'compositions export' writes"


@dataclass(frozen=True, slots=True)
class Opened:
    """A lane as it was opened.

    Attributes:
        provider: Its name.
        source: ``ATTACHED``, ``PUSHED`` or ``INLINE``.
    """

    provider: str
    source: str


@dataclass(frozen=True, slots=True)
class Timed:
    """A lane's change, and when the caller heard of it.

    Attributes:
        update: The change.
        ms: Milliseconds since the request was sent.
    """

    update: LaneUpdate
    ms: float


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What a broker's store says beside a composition.

    Attributes:
        made_at: When it was made, ISO 8601 in UTC.
        subject: Who asked; empty where callers need no credential.
        content: Whether the placed frames were kept; otherwise their content, and the prompt's texts, are empty.
    """

    made_at: str
    subject: str
    content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A composition with what is known of how it came to be.

    Attributes:
        composition: The composition.
        asked: The question; None where the document does not say.
        opened: The lanes that were opened; empty where it does not say.
        updates: How they fared, in the order heard; empty where it does not say.
        accepted_ms: Milliseconds until the request was taken; None where it does not say.
        completed_ms: Milliseconds until the composition was whole; None where it does not say.
        on_record: What the store said, where it comes from there; None: it was saved by whoever asked.
    """

    composition: Composition
    asked: Asked | None = None
    opened: tuple[Opened, ...] = ()
    updates: tuple[Timed, ...] = ()
    accepted_ms: float | None = None
    completed_ms: float | None = None
    on_record: OnRecord | None = None

    @property
    def goal(self) -> str:
        """What was asked; empty where the document does not say."""
        return self.asked.goal if self.asked is not None else ""

    @property
    def content(self) -> bool:
        """Whether the placed frames have their content."""
        return self.on_record is None or self.on_record.content


def savable(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuses a file that could not be written, before anything is asked."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"{str(path.parent)!r} is not a directory")
    return path


def save_records(path: Path, records: Iterable[Record]) -> None:
    """Writes a document; the file is whole or not there.

    Raises:
        OSError: It cannot be written.
    """
    text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read_saved(path: Path) -> Saved:
    """Reads a document, ``-`` for standard input.

    Raises:
        Failure: It is none, holds more than one composition, or a line is wrong: the message names the line.
        OSError: It cannot be read.
    """
    reader = _Reader(place_of(path))
    for number, record in json_records(path):
        reader.take(number, Fields(record))
    return reader.result()


class _Reader:
    """Takes the records of one document."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._placed: list[Placed] = []
        self._audit: list[AuditRow] = []
        self._opened: list[Opened] = []
        self._updates: list[Timed] = []
        self._asked: Asked | None = None
        self._accepted_ms: float | None = None
        self._on_record: OnRecord | None = None
        self._saved: Saved | None = None

    def take(self, number: int, record: Fields) -> None:
        """One record."""
        try:
            self._take(record)
        except WrongField as error:
            raise Failure(
                f"{self._place}, line {number}: {error}", code="INVALID_ARGUMENT", reason="BAD_LINE"
            ) from None

    def result(self) -> Saved:
        """The composition, once every record was taken."""
        if self._saved is None:
            raise self._refused("holds no whole composition: there is no record with event 'completed'")
        return self._saved

    def _take(self, record: Fields) -> None:
        event = record.text("event")
        if event == "error":
            raise self._refused(f"holds a failure and no composition: {clean(record.text('message'))}")
        if self._saved is not None:
            raise self._refused("goes on after its composition's end; give a document of one composition")
        match event:
            case "accepted":
                self._accepted(record)
            case "recorded":
                self._on_record = OnRecord(record.text("made_at"), record.text("subject"), record.flag("content"))
                self._asked = read_asked(record.part("request")) if "request" in record else None
            case "snapshot":
                pass  # Superseded by the composition that ends the document.
            case "lane":
                self._updates.append(Timed(read_update(record), record.optional("ms", record.number) or 0.0))
            case "placed":
                self._placed.append(read_placed(record))
            case "audit":
                self._audit.append(read_audit(record))
            case "completed":
                composition = read_composition(self._placed, self._audit, record)
                if contradiction := _contradiction(composition):
                    raise self._refused(f"contradicts itself: {clean(contradiction)}")
                self._saved = Saved(
                    composition=composition,
                    asked=self._asked,
                    opened=tuple(self._opened),
                    updates=tuple(self._updates),
                    accepted_ms=self._accepted_ms,
                    completed_ms=record.optional("ms", record.number),
                    on_record=self._on_record,
                )
            case _:
                raise self._refused(f"holds a record of event {event[:64]!a}: {_EXPECTED}")

    def _accepted(self, record: Fields) -> None:
        self._opened = [Opened(lane.text("provider"), lane.text("source")) for lane in record.parts("lanes")]
        self._accepted_ms = record.optional("ms", record.number)
        self._asked = read_asked(record.part("request")) if "request" in record else None

    def _refused(self, what: str) -> Failure:
        return Failure(f"{self._place} {what}", code="INVALID_ARGUMENT", reason="NO_COMPOSITION")


def _contradiction(composition: Composition) -> str:
    """What keeps a composition from being shown at all; empty: nothing. :mod:`broker.core.replay` looks deeper."""
    if [placed.position for placed in composition.placed] != list(range(1, len(composition.placed) + 1)):
        return "its placed frames are not those of positions 1 to their number"
    if any(not placed.vouchers for placed in composition.placed):
        return "a placed frame names no one who vouches for it"
    included = sorted((row.position, row.provider, row.rank) for row in composition.audit if row.included)
    if included != [(placed.position, placed.provider, placed.rank) for placed in composition.placed]:
        return "its placed frames and the rows that say so are not the same"
    try:
        lanes = rebuilt_lanes(composition)
        recorded_strategy(composition.summary.strategy, None, [one for lane in lanes for one in lane])
    except Contradiction as error:
        return str(error)
    return ""
