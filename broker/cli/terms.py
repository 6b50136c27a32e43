"""On what terms a composition was made: its policy, its budget, how it is written, and limits that got in the way."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from broker.cli.output import Style
from broker.cli.text import clean, clip, plural
from broker.cli.why import negated
from broker.core.audited import AuditSummary, BudgetRecord, RenderRecord, RerankOutcome, RerankRecord
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4
from broker.core.request import BudgetSplit, Placement

_INDENT = " " * 10


def policy_lines(composition: Composition, style: Style) -> Iterator[str]:
    """The strategy, loudly flagged where it compares raw scores; what the budget went to; and whatever is not usual."""
    strategy, budget = composition.summary.strategy, composition.summary.budget
    params = ", ".join(parameter_text(name, value) for name, value in strategy.params.items() if value != "")
    told = clip(clean(params), style.width - len(strategy.name) - 12, style.glyphs.ellipsis)
    yield f"strategy  {style.paint(strategy.name, bold=True)}" + (f"({told})" if told else "")
    if strategy.compares_raw_scores:
        warning = "!! COMPARES RAW SCORES of different providers, which share no scale !!"
        yield f"          {style.paint(warning, 'red', bold=True)}"
        if negated(composition):
            yield "          scores are negated first where lower is better: -(score)"
    for repair in strategy.repairs:
        yield f"          {style.paint('repaired:', 'red')} {clean(repair)}"
    if composition.summary.rerank is not None:
        yield from _rerank_lines(composition.summary.rerank, style)
    yield from _budget_lines(budget, style)
    yield from _unusual_lines(composition, style)
    for record in composition.summary.floors:
        floor = record.floor
        effect = (
            f"dropped {plural(record.dropped, 'frame')}" if record.used else "unused: the provider has no lane here"
        )
        yield f"floor     {floor.provider}: {clean(floor.scale_id)} {floor.value:g}  {effect}"


def placement_text(summary: AuditSummary) -> str:
    """The placement that was applied, and how it came to be where that was left open."""
    if summary.placement_asked != Placement.AUTO.value:
        return clean(summary.placement)
    side = "shorter than" if summary.placement == Placement.RANK_ORDER.value else "of at least"
    return f"{clean(summary.placement)}: AUTO, for a prompt {side} {summary.fold_min_tokens:,} tokens"


def usable_text(budget: BudgetRecord) -> str:
    """The tokens that there were to fill."""
    if budget.safety_factor == 1:
        return f"{budget.usable:,} tokens"
    return f"{budget.usable:,} tokens ({budget.max_tokens:,} by the safety factor {budget.safety_factor:g})"


def render_text(render: RenderRecord) -> str:
    """How the context is written, in a few words."""
    words = (render.mode, render.fence.lower() and f"{render.fence.lower()} fence")
    return ", ".join(clean(word) for word in (*words, "question restated" if render.restated_question else "") if word)


def roles_text(composition: Composition) -> str:
    """What is to be said of role tokens in placed frames; empty: there are none."""
    counts = [row.role_tokens for row in composition.audit if row.included and row.role_tokens]
    if not counts:
        return ""
    return f"{plural(sum(counts), 'role token')} of chat formats in {plural(len(counts), 'frame')}, which stand as data"


def _budget_lines(budget: BudgetRecord, style: Style) -> Iterator[str]:
    bar = style.bar(budget.used, budget.usable, 20).replace(" ", ".")
    spent = f"budget    {budget.used:,} of {usable_text(budget)}  [{bar}]"
    parts = f"preamble {budget.preamble:,} + frames {budget.frames:,} + closing {budget.closing:,}"
    yield from [f"{spent}  {parts}"] if len(spent) + len(parts) + 2 <= style.width else [spent, f"{_INDENT}{parts}"]
    if budget.counter != BYTES_PER_4.name:
        told = f"counted by {clean(budget.counter)}"
        yield from textwrap.wrap(told, style.width, initial_indent=_INDENT, subsequent_indent=f"{_INDENT}  ")
    if budget.split != BudgetSplit.FULL.value:
        yield f"{_INDENT}split {clean(budget.split)}: a lane was granted its part and not all of it"


def _unusual_lines(composition: Composition, style: Style) -> Iterator[str]:
    summary = composition.summary
    if summary.render != RenderRecord():
        yield f"render    {render_text(summary.render)}"
    if roles := roles_text(composition):
        yield f"{'roles':<10}{roles}"
    for conflict in summary.limit_conflicts:
        told = f"{conflict.limit} yields to {conflict.overridden_by}: {conflict.message}"
        yield from textwrap.wrap(clean(told), style.width, initial_indent="limit     ", subsequent_indent=_INDENT)


def _rerank_lines(rerank: RerankRecord, style: Style) -> Iterator[str]:
    params = {"candidates": rerank.candidates, "top_n": rerank.top_n, "min_score": rerank.min_score}
    told = ", ".join(parameter_text(name, value) for name, value in params.items() if value is not None)
    name = clip(clean(rerank.name), style.width // 2, style.glyphs.ellipsis)
    rest = f"({told})" + (f"  {clean(rerank.version)}" if rerank.version else "")
    room = style.width - len(name) - 10
    yield f"rerank    {style.paint(name, bold=True)}{clip(rest, room, style.glyphs.ellipsis)}"
    if rerank.outcome is RerankOutcome.FALLBACK:
        warning = "not applied, the order before stands:"
        why = clip(clean(rerank.message), style.width - len(warning) - 11, style.glyphs.ellipsis)
        yield f"          {style.paint(warning, 'red', bold=True)} {why}"
    elif rerank.unscored:
        yield f"          {plural(rerank.unscored, 'candidate')} without a score, behind the others in the order before"


def parameter_text(name: str, value: object) -> str:
    """A parameter as ``name=value``; a long list as its length."""
    if isinstance(value, float):
        return f"{name}={value:g}"
    if isinstance(value, Mapping):
        return f"{name}={{{', '.join(parameter_text(str(key), item) for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"{name}=[{plural(len(value), 'entry') if len(value) == 1 else f'{len(value):,} entries'}]"
    return f"{name}={value}"
