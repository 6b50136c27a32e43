"""Compositions on record: fetched from a broker, and as documents that ``explain`` reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.asked import asked_of, asked_record
from broker.cli.encode import Record, composition_records, moment
from broker.cli.options import FILE, Access
from broker.cli.saved import OnRecord, Saved, read_saved
from broker.cli.text import clean
from broker.core.outline import outlined

if TYPE_CHECKING:
    from broker import client

    _ParamType = click.ParamType["Path | str"]
else:
    # Generic for type checkers alone: older releases of click have a plain class here.
    _ParamType = click.ParamType

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What names a composition: a UUID."""


class FileOrId(_ParamType):
    """A document, ``-`` for standard input, as a path; or the id of a composition on record, as a text."""

    name = "FILE|ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """A path where there is such a file; an id where it can be one."""
        if isinstance(value, Path):
            return value
        if _ID.fullmatch(value.lower()) and not Path(value).exists():
            return str(value.lower())
        if value != "-" and not Path(value).exists():
            text = f"{value!r} is neither a file that is there nor a whole id of a composition, which has 36 characters"
            self.fail(f"{text}; see `context-broker compositions list`", param, ctx)
        return Path(FILE.convert(value, param, ctx))


FILE_OR_ID = FileOrId()


class CompositionId(_ParamType):
    """The id of a composition on record."""

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id, in the form in which a broker gives it."""
        if not _ID.fullmatch(value.lower()):
            text = f"{value!r} is no id of a composition, which has 36 characters"
            self.fail(f"{text}; see `context-broker compositions list`", param, ctx)
        return str(value.lower())


COMPOSITION_ID = CompositionId()


def saved_of(source: Path | str, address: str, access: Access, tenant: str = "") -> Saved:
    """A document, or the composition of an id as the broker has it on record.

    Raises:
        Failure: As :func:`~broker.cli.saved.read_saved`.
        BrokerError: The broker has none of this id, keeps none, or cannot be asked.
    """
    if isinstance(source, Path):
        return read_saved(source)
    return saved_record(asyncio.run(_fetched(source, tenant, address, access)))


def saved_record(record: client.Record) -> Saved:
    """A record as a document; placed frames without content are outlined, so that it can be drawn and explained."""
    return Saved(
        composition=record.composition if record.content else outlined(record.composition),
        asked=None if record.request is None else asked_of(record.request),
        on_record=OnRecord(moment(record.made_at) or "", record.subject, record.content),
    )


def document_records(saved: Saved) -> Iterator[Record]:
    """A document of what was on record, as lines: ``recorded``, then the records of a composition."""
    assert saved.on_record is not None, "documents of other origin are written as they came"
    composition, kept = saved.composition, saved.on_record
    yield {
        "event": "recorded",
        "composition_id": composition.composition_id,
        "request_id": composition.request_id,
        "made_at": kept.made_at,
        "subject": kept.subject,
        "content": kept.content,
        "request": None if saved.asked is None else asked_record(saved.asked),
    }
    yield from composition_records(composition)


def recorded_text(kept: OnRecord) -> str:
    """When it was made, who asked, and whether its content is there, for people."""
    by = f", asked by {clean(kept.subject)}" if kept.subject else ""
    return f"{clean(kept.made_at)}{by}{'' if kept.content else ', without content'}"


async def _fetched(composition_id: str, tenant: str, address: str, access: Access) -> client.Record:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        return await client.composition(composition_id, tenant=tenant)
