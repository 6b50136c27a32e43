"""A recorded composition as bytes that are kept, and as the messages that give it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from msgspec import Struct
from msgspec.structs import replace

from broker.core.audited import AuditSummary
from broker.core.composition import Composition, Usage
from broker.core.records import Filter, Observation, ProviderStatistics
from broker.errors import FieldViolation, Internal, InvalidArgument
from broker.wire.audits import read_summary, read_usage
from broker.wire.compositions import CompositionReader
from broker.wire.encoded_audits import EncodedAudit
from broker.wire.fields import Field
from broker.wire.listings import MICROS
from broker.wire.requests import ComposeCall, read_call

_HEAD, _PART = map(Field, pb.GetCompositionResponse.DESCRIPTOR.fields)
_SUMMARY, _USAGE = (Field(pb.CompositionRecord.DESCRIPTOR.fields_by_name[name]) for name in ("summary", "usage"))

_FIGURES = tuple(name for name in ProviderStatistics.__struct_fields__ if name != "provider")


class Record(Struct, frozen=True, gc=False, kw_only=True):
    """A recorded composition.

    Attributes:
        composition: As it was answered; without placed frames and the texts around them where they were not kept.
        subject: Who asked; empty where callers need no credential.
        made_at: Seconds since the epoch.
        request: What was asked, without inline frames; without goal, question and anchors where no content was kept.
            None: it says what this version does not know.
        content: Whether the placed frames were kept.
    """

    composition: Composition
    subject: str
    made_at: float
    request: ComposeCall | None
    content: bool


class ListedComposition(Struct, frozen=True, gc=False, kw_only=True):
    """What a list says of a recorded composition.

    Attributes:
        composition_id: Its id.
        request_id: The request's name.
        subject: Who asked; empty where callers need no credential.
        made_at: Seconds since the epoch.
        summary: Its audit's summary.
        usage: Frames and tokens.
        request: As that of :class:`Record`.
        content: Whether the placed frames were kept.
    """

    composition_id: str
    request_id: str
    subject: str
    made_at: float
    summary: AuditSummary
    usage: Usage
    request: ComposeCall | None
    content: bool


def record_head(
    composition: Composition,
    audit: EncodedAudit,
    asked: pb.ComposeRequest,
    subject: str,
    made_at: int,
    *,
    content: bool,
) -> bytes:
    """What is kept of a composition beside its parts.

    Args:
        composition: The composition.
        audit: Its summary and usage.
        asked: The request as it was sent, without inline lanes; it is kept under the composition's own request id.
        subject: Who asked.
        made_at: Microseconds since the epoch.
        content: Whether what was asked, and the texts around the frames, are kept.
    """
    message = pb.CompositionRecord(
        composition_id=composition.composition_id,
        request_id=composition.request_id,
        subject=subject,
        request=asked,
        content=content,
        preamble=composition.preamble if content else "",
        closing=composition.closing if content else "",
        separator=composition.separator if content else "",
    )
    request = message.request
    request.request_id = composition.request_id
    if not content:
        for field in ("goal", "query_text", "anchors"):
            request.ClearField(field)
        request.render.ClearField("question")
    message.made_at.FromMicroseconds(made_at)
    # Maps have no order of their own: the same record gives the same bytes in every process.
    data = message.SerializeToString(deterministic=True)
    return data + _SUMMARY.message(audit.summary) + _USAGE.message(audit.usage)


def is_kept(kind: str, *, content: bool) -> bool:
    """Whether items of that kind, of those that a part of an answer has, are kept beside the head."""
    return kind in ("citations", "audit") or (content and kind == "placed")


def record_messages(head: bytes, parts: Iterable[bytes]) -> Iterator[bytes]:
    """What was kept, as the messages that give it back.

    Args:
        head: As :func:`record_head` made it.
        parts: Encoded ``Part`` messages, of what :func:`is_kept` names.
    """
    yield _HEAD.message(head)
    yield from map(_PART.message, parts)


class RecordReader:
    """Rebuilds a record from the messages of :func:`record_messages`, in order."""

    def __init__(self) -> None:
        self._head: pb.CompositionRecord | None = None
        self._reader = CompositionReader()

    def take(self, message: pb.GetCompositionResponse) -> None:
        """Takes one message."""
        if message.HasField("composition"):
            self._head = message.composition
        else:
            self._reader.take_part(message.part)

    def result(self) -> Record:
        """The whole record.

        Raises:
            Internal: Part of it did not come (``ANSWER_BROKEN``).
        """
        head = self._head
        if head is None:
            raise Internal("ANSWER_BROKEN", "the record is broken: it does not say whose it is; ask again")
        completed = composition_pb2.Completed(
            composition_id=head.composition_id,
            summary=head.summary,
            usage=head.usage,
            preamble=head.preamble,
            closing=head.closing,
            separator=head.separator,
            audit_state=composition_pb2.AUDIT_STATE_RECORDED,
        )
        self._reader.take_part(composition_pb2.Part(completed=completed))
        return Record(
            composition=replace(self._reader.result(), request_id=head.request_id),
            subject=head.subject,
            made_at=head.made_at.ToMicroseconds() / MICROS,
            request=_request(head),
            content=head.content,
        )


def read_listed(head: pb.CompositionRecord) -> ListedComposition:
    """What a list says of a composition."""
    return ListedComposition(
        composition_id=head.composition_id,
        request_id=head.request_id,
        subject=head.subject,
        made_at=head.made_at.ToMicroseconds() / MICROS,
        summary=read_summary(head.summary),
        usage=read_usage(head.usage),
        request=_request(head),
        content=head.content,
    )


def filter_value(message: pb.ListCompositionsRequest) -> Filter:
    """Which compositions a request means.

    Raises:
        InvalidArgument: ``WINDOW``: a time is outside what can be told; ``REASON``: a reason goes with frames that were
            left out, and placed ones are meant.
    """
    placed = {composition_pb2.FATE_INCLUDED: True, composition_pb2.FATE_EXCLUDED: False}.get(message.fate)
    if message.reason and placed:
        text = "a placed frame has no reason; leave one of the two out"
        raise InvalidArgument.of([FieldViolation("reason", "REASON", text)])
    return Filter(
        made_from=_micros(message, "made_from"),
        made_before=_micros(message, "made_before"),
        provider=message.provider_id,
        frame_id=message.frame_id,
        placed=placed,
        reason=message.reason,
        document=message.document,
    )


def attribution_values(message: pb.ReportAttributionRequest) -> list[Observation]:
    """What a report says of frames.

    Raises:
        InvalidArgument: ``INCOHERENT``: what is cited was rendered, and what is rendered was selected.
            ``FRAME_REPEATED``: one frame is reported twice. ``FRAMES``: nothing is reported.
    """
    wrong: list[FieldViolation] = []
    seen: dict[tuple[str, str], Observation] = {}
    if not message.frames:
        wrong.append(FieldViolation("frames", "FRAMES", "give what was observed of at least one placed frame"))
    for index, frame in enumerate(message.frames):
        key = (frame.frame.provider_id, frame.frame.frame_id)
        if (frame.cited and not frame.rendered) or (frame.rendered and not frame.selected):
            text = "a cited frame was rendered too, and a rendered one selected; report these as well"
            wrong.append(FieldViolation(f"frames[{index}]", "INCOHERENT", text))
        if key in seen:
            text = "this frame is reported above; report each once"
            wrong.append(FieldViolation(f"frames[{index}].frame", "FRAME_REPEATED", text))
        seen[key] = Observation(*key, frame.selected, frame.rendered, frame.cited)
    if wrong:
        raise InvalidArgument.of(wrong)
    return list(seen.values())


def statistics_message(providers: Iterable[ProviderStatistics]) -> pb.GetProviderStatisticsResponse:
    """How providers fared."""
    return pb.GetProviderStatisticsResponse(
        providers=[
            pb.ProviderStatistics(
                provider_id=each.provider,
                tokens_per_citation=each.tokens_per_citation,
                **{name: getattr(each, name) for name in _FIGURES},
            )
            for each in providers
        ]
    )


def read_statistics(message: pb.GetProviderStatisticsResponse) -> tuple[ProviderStatistics, ...]:
    """The inverse of :func:`statistics_message`."""
    return tuple(
        ProviderStatistics(provider=each.provider_id, **{name: getattr(each, name) for name in _FIGURES})
        for each in message.providers
    )


def _request(head: pb.CompositionRecord) -> ComposeCall | None:
    try:
        return read_call(head.request)
    except InvalidArgument:
        # A later version recorded it, and the rest of the record can be read all the same.
        return None


def _micros(message: pb.ListCompositionsRequest, field: str) -> int | None:
    if not message.HasField(field):  # type: ignore[arg-type]
        return None
    moment = getattr(message, field)
    if not 0 <= moment.seconds < 2**40 or not 0 <= moment.nanos < 10**9:
        text = "give a moment of the years 1970 to 36812"
        raise InvalidArgument.of([FieldViolation(field, "WINDOW", text)])
    return int(moment.seconds) * MICROS + int(moment.nanos) // 1000
