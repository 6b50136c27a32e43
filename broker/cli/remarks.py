"""What a person should know of an answer that came, and would not see: told on standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from broker.cli.left_out import meaning_of
from broker.cli.text import clean, plural
from broker.core.audited import AuditRow, Reason
from broker.core.composition import AuditState, Composition
from broker.core.lanes import LaneEnd


def remarks(composition: Composition, inline: Collection[str] = (), pushed: Collection[str] = ()) -> Iterator[str]:
    """Lines of one remark each; none where everything went as it was asked.

    Args:
        composition: The answer.
        inline: Lanes that the caller brought along.
        pushed: Lanes that were waited for.
    """
    if composition.audit_state is AuditState.DEGRADED:
        yield (
            "this composition is not on record: the broker's store was away, and its operator has it answer all the "
            "same; --save keeps one here"
        )
    for lane in composition.summary.lanes:
        broken = [row for row in composition.audit if row.provider == lane.provider and row.reason == Reason.INVALID]
        if broken:
            yield _broken(lane.provider, broken, lane.offered, inline, pushed)
    strategy = composition.summary.strategy
    if strategy.name == "precomputed":
        ids, named = _count(strategy.params.get("ids")), _count(strategy.params.get("named"))
        if named < ids:
            found = f"{named:,} of them could" if named else "none could"
            yield f"the order names {plural(ids, 'frame')}, and {found} be ranked: not offered, or left out before"
    if not composition.placed:
        yield _empty(composition)


def not_on_record(composition: Composition) -> str:
    """What stands behind the id of a composition that should be on record and is not; empty for any other."""
    return ", not on record (DEGRADED)" if composition.audit_state is AuditState.DEGRADED else ""


def _broken(provider: str, rows: list[AuditRow], offered: int, inline: Collection[str], pushed: Collection[str]) -> str:
    reasons = Counter(row.detail.partition(":")[0] for row in rows)
    first = next(row.detail for row in rows)
    told = first if len(reasons) == 1 else ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    were = "was" if len(rows) == 1 else "were"
    text = f"{provider}: {len(rows):,} of {plural(offered, 'frame')} broke a rule and {were} left out: {clean(told)}"
    if any(reason.startswith("SCORE_") for reason in reasons):
        if provider in inline:
            return f"{text}; --inline-scale {provider}=ID:MIN:MAX names the scale of its scores"
        if provider in pushed:
            return f"{text}; push --scale ID:MIN:MAX names the scale of its scores"
    return text


def _empty(composition: Composition) -> str:
    reasons = {name: count for name, count in composition.summary.reasons.items() if count}
    if not reasons:
        ends = [f"{lane.provider} {lane.end.value}" for lane in composition.summary.lanes if lane.end != LaneEnd.EMPTY]
        silent = f" ({', '.join(ends)})" if ends else ""
        return f"no frame was placed: none was offered for this question{silent}"
    told = ", ".join(f"{name} {count:,} ({meaning_of(name)})" for name, count in reasons.items())
    advice = "; give more --max-tokens" if Reason.OVER_BUDGET in reasons else ""
    return f"no frame was placed: {told}{advice}"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
