"""Placed frames, citations and audit rows, encoded without messages in between.

Field by field, in the order of their numbers: the very bytes that the contract's messages serialize to, which a test
holds them to, in a fifth of the time. They are strings whose characters are bytes, see :mod:`broker.wire.fields`;
each item stands behind the tag and size that it has in a ``Part``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import frame_pb2, strategy_pb2

from broker.core.audited import AuditRow, AuditScore
from broker.core.composition import Citation, Placed
from broker.core.frames import KINDS, Frame, FrameRef, Relation
from broker.wire.fields import fields_of, octets
from broker.wire.frames import kind_number

_PART_PLACED, _PART_CITATION, _PART_ROW, _ = fields_of(pb.Part.DESCRIPTOR)
_PLACED = fields_of(pb.Placed.DESCRIPTOR)
_CITATION = fields_of(pb.Citation.DESCRIPTOR)
_ROW = fields_of(pb.AuditRow.DESCRIPTOR)
_SCORE = fields_of(pb.AuditScore.DESCRIPTOR)
_FRAME = fields_of(frame_pb2.Frame.DESCRIPTOR)
_STEP = fields_of(frame_pb2.Provenance.DESCRIPTOR)
_TIE = fields_of(frame_pb2.Relation.DESCRIPTOR)
_REF = fields_of(strategy_pb2.FrameRef.DESCRIPTOR)

_KINDS = {name: _FRAME[1][number] for number, name in enumerate(KINDS)}
_FATES = {True: _ROW[3][pb.FATE_INCLUDED], False: _ROW[3][pb.FATE_EXCLUDED]}


def placed_items(items: Sequence[Placed]) -> list[str]:
    """Placed frames, each an item of a part."""
    position, total, provider, local_rank, rank, frame, rendered, cost, citation_label, vouchers = _PLACED
    ref_provider, ref_id = _REF
    providers, ref_providers, encoded = provider.texts, ref_provider.texts, []
    frames = encoded_frames([item.frame for item in items])
    for item, (before, content, behind) in zip(items, frames, strict=True):
        block, label = item.rendered, item.citation_label
        if not (block.isascii() and label.isascii()):
            block, label = octets(block), octets(label)
        names = ""
        for ref in item.vouchers:
            name = ref.frame_id if ref.frame_id.isascii() else octets(ref.frame_id)
            data = f"{ref_providers[ref.provider]}{ref_id[len(name)]}{name}"
            names += f"{vouchers[len(data)]}{data}"
        # Large texts are copied once: sizes are added up, and all is put together at the end.
        head = (
            f"{position[item.position]}{total[item.total]}{providers[item.provider]}{local_rank[item.local_rank]}"
            f"{rank[item.rank]}{frame[len(before) + len(content) + len(behind)]}{before}"
        )
        middle = f"{behind}{rendered[len(block)]}"
        tail = f"{cost[item.cost]}{citation_label[len(label)]}{label}{names}"
        size = len(head) + len(content) + len(middle) + len(block) + len(tail)
        encoded.append(f"{_PART_PLACED[size]}{head}{content}{middle}{block}{tail}")
    return encoded


def citation_items(items: Iterable[Citation]) -> list[str]:
    """Citations, each an item of a part."""
    label, frame, position, content_digest = _CITATION
    ref_provider, ref_id = _REF
    ref_providers, encoded = ref_provider.texts, []
    for item in items:
        text, name, digest = item.label, item.frame.frame_id, item.content_digest
        if not (text.isascii() and name.isascii() and digest.isascii()):
            text, name, digest = octets(text), octets(name), octets(digest)
        ref = f"{ref_providers[item.frame.provider]}{ref_id[len(name)]}{name}"
        data = (
            f"{label[len(text)]}{text}{frame[len(ref)]}{ref}{position[item.position]}"
            f"{content_digest[len(digest)]}{digest}"
        )
        encoded.append(f"{_PART_CITATION[len(data)]}{data}")
    return encoded


def row_items(items: Iterable[AuditRow]) -> list[str]:
    """Audit rows, each an item of a part."""
    provider, frame_id, content_digest, _, reason, detail, lane_place, local_rank, rank, position, cost = _ROW[:11]
    remaining, (tokens, admitted, recorded_at) = _ROW[11], _ROW[20:]
    providers, reasons, moments, encoded = provider.texts, reason.texts, recorded_at.texts, []
    for item in items:
        name, digest, told = item.frame_id, item.content_digest, item.detail
        if not (name.isascii() and digest.isascii() and told.isascii()):
            name, digest, told = octets(name), octets(digest), octets(told)
        more = ""
        if (
            item.duplicate_of
            or item.conflicts
            or item.score
            or item.escaped_characters
            or item.neutralised_fences
            or item.prior_rank
            or item.rerank_score
            or item.role_tokens
        ):
            more = _particulars(item)
        data = (
            f"{providers[item.provider]}{frame_id[len(name)]}{name}{content_digest[len(digest)]}{digest}"
            f"{_FATES[item.included]}{reasons[item.reason]}{detail[len(told)]}{told}"
            f"{lane_place[item.lane_place]}{local_rank[item.local_rank]}{rank[item.rank]}{position[item.position]}"
            f"{cost[item.cost]}{remaining[item.remaining]}{more}"
            f"{tokens[item.tokens]}{admitted[item.admitted]}{moments[item.recorded_at]}"
        )
        encoded.append(f"{_PART_ROW[len(data)]}{data}")
    return encoded


def _particulars(item: AuditRow) -> str:
    """What few rows say."""
    duplicate_of, conflicts, score, escaped, fences, prior_rank, rerank_score, role_tokens = _ROW[12:20]
    pieces = []
    if item.duplicate_of is not None:
        pieces.append(duplicate_of.sized(_encoded_ref(item.duplicate_of)))
    pieces += [conflicts.sized(_encoded_ref(ref)) for ref in item.conflicts]
    if item.score is not None:
        pieces.append(score.sized(_encoded_score(item.score)))
    pieces += (
        escaped[item.escaped_characters],
        fences[item.neutralised_fences],
        prior_rank[item.prior_rank],
        rerank_score.text(item.rerank_score),
        role_tokens[item.role_tokens],
    )
    return "".join(pieces)


def encoded_frames(items: Iterable[Frame]) -> list[tuple[str, str, str]]:
    """Frames that the core has passed: what stands before a content, that, and what stands behind it.

    See :func:`~broker.wire.frames.frame_message`.
    """
    frame_id, kind, title, content, score, token_cost, citation_label, content_digest, uri, provenance = _FRAME[:10]
    step_type, step_uri, step_range, step_digest, method, by = _STEP
    types, methods, makers, encoded = step_type.texts, method.texts, by.texts, []
    for item in items:
        name, heading, evidence = item.id, item.title, item.content
        label, digest, place = item.citation_label, item.content_digest, item.uri
        if not (
            evidence.isascii()
            and heading.isascii()
            and label.isascii()
            and name.isascii()
            and place.isascii()
            and digest.isascii()
        ):
            name, heading, evidence, label, digest, place = map(octets, (name, heading, evidence, label, digest, place))
        steps = ""
        for step in item.provenance:
            source, lines = step.uri, step.range
            if not (source.isascii() and lines.isascii()):
                source, lines = octets(source), octets(lines)
            data = (
                f"{types[step.type]}{step_uri[len(source)]}{source}{step_range[len(lines)]}{lines}"
                f"{step_digest.text(step.digest) if step.digest else ''}{methods[step.method]}{makers[step.by]}"
            )
            steps += f"{provenance[len(data)]}{data}"
        before = (
            f"{frame_id[len(name)]}{name}{_KINDS[item.kind] if item.kind in _KINDS else kind[kind_number(item.kind)]}"
            f"{title[len(heading)]}{heading}{content[len(evidence)]}"
        )
        behind = (
            f"{'' if item.score is None else score.present(item.score)}"
            f"{'' if item.token_cost is None else token_cost[item.token_cost]}"
            f"{citation_label[len(label)]}{label}{content_digest[len(digest)]}{digest}{uri[len(place)]}{place}{steps}"
            f"{_rest(item) if item.relations or item.valid_from or item.valid_to or item.recorded_at else ''}"
        )
        encoded.append((before, evidence, behind))
    return encoded


def _rest(item: Frame) -> str:
    """What few frames say: their ties and moments."""
    relations, *moments = _FRAME[10:]
    ties = [relations.sized(_encoded_tie(tie)) for tie in item.relations]
    told = (item.valid_from, item.valid_to, item.recorded_at)
    return "".join([*ties, *(moment.text(value) for moment, value in zip(moments, told, strict=True))])


def _encoded_ref(item: FrameRef) -> str:
    provider, frame_id = _REF
    return provider.texts[item.provider] + frame_id.text(item.frame_id)


def _encoded_tie(item: Relation) -> str:
    rel, target_uri, display_name = _TIE
    return rel.text(item.rel) + target_uri.text(item.target_uri) + display_name.text(item.display_name)


def _encoded_score(item: AuditScore) -> str:
    provider, scale_id, value, floor = _SCORE
    scale = provider.texts[item.provider] + scale_id.texts[item.scale_id]
    return scale + value.text(item.value) + floor.texts[item.floor]
