"""What is on record, and what became of it: the methods of ContextService that read and add to the store."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace

from broker.auth.caller import Caller
from broker.core.records import Filter, Observation
from broker.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound, Unavailable
from broker.rpc.handlers import Method, Serving, only_message, unary
from broker.rpc.streams import Stream
from broker.rpc.validation import parsed, violations_of
from broker.store.engine import StoreUnavailable
from broker.store.searching import PAGE_SECONDS
from broker.store.store import Store
from broker.store.values import Mark
from broker.wire.batches import report_size
from broker.wire.records import (
    attribution_values,
    filter_value,
    record_messages,
    statistics_message,
)

PAGE = 100
"""Compositions to a page where the request does not say."""

REPORTED = 10_000
"""Frames of a report, by its schema; counted before anything of it is looked at."""

CHECKED_AT_ONCE = 200
"""Frames of a report that are held against the schema before others get their turn: each takes some 20 µs."""

VIOLATIONS = 32
"""Frames of a report that are named as wrong; the others are wrong in the same way."""

T = TypeVar("T")


class Records:
    """The methods, each for the caller's own tenant, or the one that an operator names."""

    def __init__(self, store: Store | None, serving: Serving) -> None:
        """Reads ``store``; None: nothing is on record, and every method says so."""
        self._store = store
        self._serving = serving

    def methods(self) -> Mapping[str, Method]:
        """By name."""
        return {
            "GetComposition": self._get,
            "ListCompositions": self._listing,
            "ReportAttribution": self._unary(self._report),
            "GetProviderStatistics": self._unary(self._statistics),
        }

    def _unary(self, answer: Callable[[Caller, bytes], Awaitable[bytes]]) -> Method:
        async def method(stream: Stream) -> None:
            await unary(partial(answer, stream.caller), self._serving)(stream)

        return method

    async def _get(self, stream: Stream) -> None:
        request = parsed(pb.GetCompositionRequest, await only_message(stream, self._serving))
        self._serving.work()
        tenant = self._serving.callers.tenant_of(stream.caller, request.tenant)
        found = await _asked(self._open().composition(tenant, request.composition_id))
        if found is None:
            raise _not_found()
        head, parts = found
        for message in record_messages(head.head, parts):
            await stream.send(message)

    async def _listing(self, stream: Stream) -> None:
        await unary(partial(self._list, stream.caller, stream.deadline), self._serving)(stream)

    async def _list(self, caller: Caller, deadline: float | None, data: bytes) -> bytes:
        request = parsed(pb.ListCompositionsRequest, data)
        tenant, wanted = self._serving.callers.tenant_of(caller, request.tenant), filter_value(request)
        after = _mark(request.page_token)
        seconds = PAGE_SECONDS
        if deadline is not None:
            # The other half is for what it waits for meanwhile.
            seconds = min(seconds, (deadline - asyncio.get_running_loop().time()) / 2)
        heads, more = await _asked(self._open().page(tenant, wanted, after, request.page_size or PAGE, seconds))
        response = pb.ListCompositionsResponse(
            compositions=[pb.CompositionRecord.FromString(head.head) for head in heads],
            next_page_token="" if more is None else _token(more),
        )
        return response.SerializeToString()

    async def _report(self, caller: Caller, data: bytes) -> bytes:
        request = await _report(data)
        observations = attribution_values(request)
        store = self._open()
        strangers = await _asked(store.attribute(caller.tenant, request.composition_id, observations, caller.subject))
        if strangers is None:
            raise _not_found()
        if strangers:
            raise InvalidArgument.of(_not_placed(observations, strangers))
        return pb.ReportAttributionResponse().SerializeToString()

    async def _statistics(self, caller: Caller, data: bytes) -> bytes:
        request = parsed(pb.GetProviderStatisticsRequest, data)
        tenant, made = self._serving.callers.tenant_of(caller, request.tenant), Filter()
        if request.HasField("made_from") or request.HasField("made_before"):
            made = filter_value(
                pb.ListCompositionsRequest(
                    made_from=request.made_from if request.HasField("made_from") else None,
                    made_before=request.made_before if request.HasField("made_before") else None,
                )
            )
        ends = (made.made_from or 0, 2**62 if made.made_before is None else made.made_before)
        found = await _asked(self._open().statistics(tenant, *ends))
        return statistics_message(found).SerializeToString()

    def _open(self) -> Store:
        if self._store is None:
            raise FailedPrecondition("NOT_KEPT", "this broker keeps no records; set store.kind in its configuration")
        return self._store


async def _asked(reading: Awaitable[T]) -> T:
    try:
        return await reading
    except StoreUnavailable:
        # Why is the operator's to know, who has it in the log of what could not be recorded.
        raise Unavailable("AUDIT_UNAVAILABLE", "the records cannot be read now; try again", retry_after=2.0) from None


async def _report(data: bytes) -> pb.ReportAttributionRequest:
    """A report that its schema allows, looked at part by part.

    Raises:
        InvalidArgument: It does not parse (``MALFORMED``), names too many frames (``FRAMES``), or breaks a constraint.
    """
    count = report_size(data)
    if count > REPORTED:
        text = f"{count} frames are reported, and a report holds {REPORTED}; report the others with another call"
        raise InvalidArgument.of([FieldViolation("frames", "FRAMES", text)])
    report = pb.ReportAttributionRequest.FromString(data)
    for start in range(0, max(1, count), CHECKED_AT_ONCE):
        frames = report.frames[start : start + CHECKED_AT_ONCE]
        part = pb.ReportAttributionRequest(composition_id=report.composition_id, frames=frames)
        if violations := violations_of(part):
            raise InvalidArgument.of([_shifted(violation, start) for violation in violations])
        await asyncio.sleep(0)
    return report


def _shifted(violation: FieldViolation, start: int) -> FieldViolation:
    """A violation of a part of a list that begins at ``start``, with its place in the whole list."""
    field = re.sub(r"^frames\[(\d+)\]", lambda found: f"frames[{int(found[1]) + start}]", violation.field)
    return replace(violation, field=field)


def _not_found() -> NotFound:
    return NotFound("COMPOSITION_UNKNOWN", "there is no composition of this id; it may have been forgotten by age")


def _not_placed(observations: Sequence[Observation], strangers: Sequence[Observation]) -> list[FieldViolation]:
    wrong = set(strangers)
    return [
        FieldViolation(
            f"frames[{index}].frame",
            "FRAME_NOT_PLACED",
            "the composition did not place this frame; report what it placed, by provider and id",
        )
        for index, seen in enumerate(observations)
        if seen in wrong
    ][:VIOLATIONS]


def _token(mark: Mark) -> str:
    return base64.urlsafe_b64encode(f"{mark.made_at} {mark.composition_id}".encode()).decode()


def _mark(token: str) -> Mark | None:
    """Where the page before ended. A token is no secret: it moves about in the caller's own tenant alone.

    Raises:
        InvalidArgument: ``PAGE_TOKEN``: it is none of ours.
    """
    if not token:
        return None
    try:
        made_at, composition_id = base64.urlsafe_b64decode(token.encode("ascii")).decode().split(" ", 1)
        number = int(made_at)
    except (ValueError, binascii.Error):
        number, composition_id = -1, ""
    if not 0 <= number < 2**62:
        text = "this is no page token; give next_page_token as it came, or nothing"
        raise InvalidArgument.of([FieldViolation("page_token", "PAGE_TOKEN", text)])
    return Mark(number, composition_id)
