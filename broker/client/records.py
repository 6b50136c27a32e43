"""What both clients share of the record: questions about it made of keywords, and what is reported to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.timestamp_pb2 import Timestamp

from broker.client.calls import parsed
from broker.core.frames import FrameRef
from broker.core.given import given
from broker.core.observations import named, observations
from broker.core.records import Observation
from broker.errors import FieldViolation, Internal, InvalidArgument
from broker.wire.listings import MICROS
from broker.wire.records import ListedComposition, Record, read_listed
from broker.wire.typed import held, require

GET_COMPOSITION = "/contextbroker.v1.ContextService/GetComposition"
LIST_COMPOSITIONS = "/contextbroker.v1.ContextService/ListCompositions"
REPORT_ATTRIBUTION = "/contextbroker.v1.ContextService/ReportAttribution"
PROVIDER_STATISTICS = "/contextbroker.v1.ContextService/GetProviderStatistics"

PAGE = 100
"""Compositions that are fetched at once."""

MOST_TO_A_PAGE = 1000
"""The contract's cap on a page."""

_END = 253_402_300_800
"""The first second since the epoch that no timestamp reaches: the year 10000."""

_LONGEST_ID = 128


class CompositionFilter(TypedDict, total=False):
    """Which compositions are meant: those that all of this is true of.

    Attributes:
        made_from: Made then or later, in seconds since the epoch; None: at any time.
        made_before: Made before then; None: at any time.
        provider: Had a lane; empty: any. With ``frame_id``, ``placed`` or ``reason`` it is also whose frame is meant.
        frame_id: Was offered; empty: any.
        placed: Whether such a frame was placed (True) or left out (False); None: either.
        reason: Why such a frame was left out, one of ``Reason``; empty: for any reason.
        document: Such a frame comes from this document: its path or the last segments of it, such as ``README.md``.
        tenant: For operators: whose compositions; empty: of the caller's own tenant.
    """

    made_from: float | None
    made_before: float | None
    provider: str
    frame_id: str
    placed: bool | None
    reason: str
    document: str
    tenant: str


def composition_data(composition_id: str, tenant: str = "") -> bytes:
    """Asks for one composition.

    Raises:
        InvalidArgument: The id is of another type (``FIELD_INVALID``), or can be none (``COMPOSITION_ID``).
    """
    _check_id(composition_id)
    return pb.GetCompositionRequest(composition_id=composition_id, tenant=_tenant(tenant)).SerializeToString()


class Pages:
    """The pages of a list, one after the other.

    Args:
        wanted: Which compositions.
        page_size: Compositions to a page, 1 to :data:`MOST_TO_A_PAGE`.

    Raises:
        TypeError: There is no such part of a filter.
        InvalidArgument: A value of another type (``FIELD_INVALID``), or out of its range (``OUT_OF_RANGE``).
    """

    def __init__(self, wanted: CompositionFilter, page_size: int = PAGE) -> None:
        require(("page_size", page_size, int))
        if not 1 <= page_size <= MOST_TO_A_PAGE:
            raise _out_of_range("page_size", page_size, f"give 1 to {MOST_TO_A_PAGE}")
        if unknown := wanted.keys() - CompositionFilter.__annotations__.keys():
            known = ", ".join(CompositionFilter.__annotations__)
            raise TypeError(f"compositions() takes no {min(unknown)!r}; there are {known}")
        self._message = _list_message(page_size, **wanted)
        self.more = True

    def request(self) -> bytes:
        """Asks for the next page."""
        return self._message.SerializeToString()

    def take(self, data: bytes) -> Iterator[ListedComposition]:
        """The compositions of the page that came, newest first; afterwards ``more`` says whether another follows.

        A page may be empty, and another follow it.

        Raises:
            Internal: The next page would be this one again.
        """
        page = parsed(pb.ListCompositionsResponse, data)
        self.more = page.next_page_token != ""
        if self.more and page.next_page_token == self._message.page_token:
            raise Internal("ANSWER_BROKEN", "the answer is broken: the page ends where it began; see the broker's log")
        self._message.page_token = page.next_page_token
        return map(read_listed, page.compositions)


def report_data(composition_id: str, observations: Iterable[Observation]) -> bytes:
    """Reports what was observed of a composition's frames.

    Raises:
        InvalidArgument: A value of another type (``FIELD_INVALID``), or as :func:`composition_data`.
    """
    _check_id(composition_id)
    observations = held(observations)
    require(("observations", observations, Iterable[Observation]))
    message = pb.ReportAttributionRequest(composition_id=composition_id)
    for index, seen in enumerate(observations):
        part = message.frames.add(selected=seen.selected, rendered=seen.rendered, cited=seen.cited)
        try:
            part.frame.provider_id, part.frame.frame_id = seen.provider, seen.frame_id
        except ValueError:
            raise _malformed(f"observations[{index}]") from None
    return message.SerializeToString()


def cited_names(cited: Iterable[str | FrameRef]) -> tuple[str | FrameRef, ...]:
    """What :meth:`report` is told of frames that an answer cites.

    Raises:
        InvalidArgument: A value of another type (``FIELD_INVALID``).
    """
    cited = held(cited)
    require(("cited", cited, Iterable[str | FrameRef]))
    return tuple(cited)


def with_cited(seen: Iterable[Observation], record: Record, cited: Iterable[str | FrameRef]) -> tuple[Observation, ...]:
    """What was observed, and that these frames of a composition are cited.

    Raises:
        InvalidArgument: A value of another type (``FIELD_INVALID``), or as :func:`~broker.core.observations.named`.
    """
    require(("observations", seen, Iterable[Observation]))
    names = (f"{each.provider}/{each.frame_id}" if isinstance(each, FrameRef) else each for each in cited)
    refs = [named(record.composition, name) for name in names]
    return (*seen, *observations(record.composition, cited=refs))


def statistics_data(made_from: float | None, made_before: float | None, tenant: str = "") -> bytes:
    """Asks how providers fared in a window, in seconds since the epoch.

    Raises:
        InvalidArgument: A time is of another type (``FIELD_INVALID``), or out of its range (``OUT_OF_RANGE``).
    """
    return pb.GetProviderStatisticsRequest(
        made_from=_moment("made_from", made_from),
        made_before=_moment("made_before", made_before),
        tenant=_tenant(tenant),
    ).SerializeToString()


def providers_data(tenant: str) -> bytes:
    """Asks for the providers of a tenant.

    Raises:
        InvalidArgument: The tenant is of another type (``FIELD_INVALID``).
    """
    return pb.ListProvidersRequest(tenant=_tenant(tenant)).SerializeToString()


def _list_message(
    page_size: int,
    *,
    made_from: float | None = None,
    made_before: float | None = None,
    provider: str = "",
    frame_id: str = "",
    placed: bool | None = None,
    reason: str = "",
    document: str = "",
    tenant: str = "",
) -> pb.ListCompositionsRequest:
    texts = {"provider": provider, "frame_id": frame_id, "reason": reason, "document": document, "tenant": tenant}
    require(("placed", placed, bool | None), *((name, text, str) for name, text in texts.items()))
    message = pb.ListCompositionsRequest(
        page_size=page_size,
        made_from=_moment("made_from", made_from),
        made_before=_moment("made_before", made_before),
    )
    if placed is not None:
        message.fate = composition_pb2.FATE_INCLUDED if placed else composition_pb2.FATE_EXCLUDED
    for name, text in texts.items():
        try:
            setattr(message, "provider_id" if name == "provider" else name, text)
        except ValueError:
            raise _malformed(name) from None
    return message


def _moment(name: str, seconds: float | None) -> Timestamp | None:
    require((name, seconds, float | None))
    if seconds is None:
        return None
    if not 0 <= seconds < _END:
        raise _out_of_range(name, seconds, "give seconds since the epoch")
    moment = Timestamp()
    moment.FromMicroseconds(round(seconds * MICROS))
    return moment


def _tenant(tenant: str) -> str:
    require(("tenant", tenant, str))
    try:
        tenant.encode()
    except UnicodeEncodeError:
        raise _malformed("tenant") from None
    return tenant


def _check_id(composition_id: str) -> None:
    require(("composition_id", composition_id, str))
    try:
        fits = 1 <= len(composition_id.encode()) <= _LONGEST_ID
    except UnicodeEncodeError:
        fits = False
    if not fits:
        text = f"give the id of a composition, as the broker made it; it has at most {_LONGEST_ID} bytes"
        raise InvalidArgument.of([FieldViolation("composition_id", "COMPOSITION_ID", text)])


def _out_of_range(name: str, value: float, advice: str) -> InvalidArgument:
    return InvalidArgument.of([FieldViolation(name, "OUT_OF_RANGE", f"{given(value)} is out of range; {advice}")])


def _malformed(name: str) -> InvalidArgument:
    return InvalidArgument.of([FieldViolation(name, "TEXT_MALFORMED", "has a lone surrogate; send valid text")])
