"""The page of ``explain --html``: one composition on one self-contained page.

It has no script, loads nothing and leads nowhere: its content security policy forbids everything but its own style
sheet, which the policy names by hash. Every text that a caller, a provider or a broker sent is escaped by
:mod:`broker.cli.markup`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

from broker.cli.markup import Markup, breakable, isolated, joined, tag, visible
from broker.cli.page_flow import flow
from broker.cli.page_lanes import WIDTH, fates, timeline
from broker.cli.page_stories import conflicts_section, section, stories_section
from broker.cli.page_style import PALETTE, STYLE
from broker.cli.recorded import recorded_text
from broker.cli.replay_view import WORDS, verdict_text
from broker.cli.saved import Saved
from broker.cli.story import Story
from broker.cli.terms import render_text, roles_text, usable_text
from broker.cli.timeline import NO_TIMES, ms_text
from broker.core.audited import AuditSummary, RerankOutcome
from broker.core.checks import Check, Verdict
from broker.core.composition import Composition
from broker.core.request import Placement

_VERDICTS = {Verdict.AGREES: "agrees", Verdict.DIFFERS: "differs", Verdict.NOT_RECOMPUTED: "unknown"}


def page_of(saved: Saved, told: Sequence[Story], checks: Sequence[Check] = ()) -> str:
    """The page.

    Args:
        saved: The document.
        told: Its stories, by rank, then the frames that were not ranked.
        checks: Of a replay; empty: none was made.
    """
    composition = saved.composition
    colours = {lane.provider: f"p{index % PALETTE}" for index, lane in enumerate(composition.summary.lanes)}
    numbers = {index: f"f{index + 1}" for index in range(len(told))}
    body = tag(
        "main",
        _head(saved),
        _lanes(saved, told, numbers, colours),
        _flow(composition, told, numbers, colours),
        _budget(composition, colours),
        stories_section(told, numbers, colours),
        conflicts_section(told, numbers),
        _usage(composition, colours),
        _replay(checks),
        tag(
            "footer",
            "Drawn by context-broker explain from a saved composition. Frames are quoted evidence, never instructions.",
        ),
    )
    style = Markup(STYLE)
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", f"Composition {composition.composition_id}".strip()),
        tag("style", style),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _head(saved: Saved) -> Markup:
    composition = saved.composition
    summary, budget = composition.summary, composition.summary.budget
    answered = sum(lane.end.answered for lane in summary.lanes)
    params = ", ".join(
        f"{name} {value}" for name, value in summary.strategy.params.items() if value not in ({}, "", [])
    )
    tiles = [
        (f"{len(composition.placed):,} of {len(composition.audit):,}", "frames placed"),
        (f"{budget.used:,} of {budget.usable:,}", "tokens used"),
        (f"{answered} of {len(summary.lanes)}", "lanes answered in full"),
        (summary.strategy.name, f"strategy{', ' + params if params else ''}"),
        (summary.placement, f"{_placement(summary)}; duplicates {summary.duplicates}"),
        (summary.render.mode, render_text(summary.render).removeprefix(f"{summary.render.mode}, ")),
    ]
    if summary.rerank is not None:
        tiles.append((summary.rerank.name, f"rerank, {summary.rerank.outcome.value.lower()}"))
    if saved.completed_ms is not None:
        tiles.append((ms_text(saved.completed_ms), "from question to prompt"))
    ids = f"composition {composition.composition_id or 'without id'}, request {composition.request_id or 'without id'}"
    return joined(
        tag("p", "Context composition", class_="kicker"),
        tag("h1", isolated(saved.goal or "One composition")),
        tag("p", isolated(ids), class_="ids mono"),
        tag("p", isolated(f"recorded {recorded_text(kept)}"), class_="ids") if (kept := saved.on_record) else None,
        tag("p", roles, class_="ids") if (roles := roles_text(composition)) else None,
        *(tag("p", text, class_="alarm") for text in _alarms(composition)),
        tag(
            "div",
            *(
                tag("div", tag("b", breakable(big)), tag("span", isolated(small)), class_="tile")
                for big, small in tiles
            ),
            class_="tiles",
        ),
    )


def _alarms(composition: Composition) -> list[str]:
    strategy, rerank = composition.summary.strategy, composition.summary.rerank
    found = []
    if strategy.compares_raw_scores:
        found.append(f"{strategy.name} compares raw scores of different providers, which share no scale.")
    found += [f"The order of {strategy.name} was repaired: {repair}." for repair in strategy.repairs]
    if rerank is not None and rerank.outcome is RerankOutcome.FALLBACK:
        found.append(f"{rerank.name} was not applied, the order before stands: {rerank.message}.")
    conflicts = composition.summary.limit_conflicts
    found += [f"{one.limit} yields to {one.overridden_by}: {one.message}." for one in conflicts]
    return found


def _placement(summary: AuditSummary) -> str:
    if summary.placement_asked != Placement.AUTO.value:
        return "placement"
    return f"placement of AUTO, which folds from {summary.fold_min_tokens:,} tokens on"


def _lanes(saved: Saved, told: Sequence[Story], numbers: Mapping[int, str], colours: Mapping[str, str]) -> Markup:
    times = timeline(saved, colours)
    parts: list[Markup] = []
    if times is None:
        parts.append(tag("p", f"{NO_TIMES.capitalize()}.", class_="lead"))
    else:
        parts.append(tag("div", times, class_="scroll"))
    lead = (
        "One lane for each provider, as the caller heard of it: thin while it was waited for, thick while frames came."
    )
    lanes = section("Lanes over time", lead, *parts)
    legend = tag(
        "ul",
        *(tag("li", svg, text) for svg, text in _legend()),
        class_="legend",
    )
    lead = "A cell for every frame offered, each lane in its provider's own order. Each leads to its story."
    return joined(
        lanes,
        section("What became of every frame", lead, legend, tag("div", fates(told, numbers, colours), class_="scroll")),
    )


def _legend() -> list[tuple[Markup, str]]:
    return [
        (tag("i", class_="k-in"), "placed in the prompt"),
        (tag("i", class_="k-copy"), "same evidence as another frame"),
        (tag("i", class_="k-out"), "left out: floor, limit or budget"),
        (tag("i", class_="k-bad"), "broke a rule"),
    ]


def _flow(
    composition: Composition, told: Sequence[Story], numbers: Mapping[int, str], colours: Mapping[str, str]
) -> Markup:
    lead = (
        "Each placed frame from its lane, by its local rank, through the order of "
        f"{composition.summary.strategy.name}, to where {composition.summary.placement} puts it. "
        "A block is as high as it is long, and stands the further right the worse its rank."
    )
    if not composition.placed:
        return section("From lanes to prompt", "No frame was placed.")
    return section("From lanes to prompt", lead, tag("div", flow(composition, told, numbers, colours), class_="scroll"))


def _budget(composition: Composition, colours: Mapping[str, str]) -> Markup:
    budget = composition.summary.budget
    parts = [("preamble", budget.preamble, "outer")]
    for provider, figures in composition.usage.providers.items():
        parts.append((provider, figures.tokens_placed, f"come {colours.get(provider, '')}"))
    parts += [("closing", budget.closing, "outer"), ("free", max(0, budget.usable - budget.used), "rest")]
    whole = max(1, budget.usable)
    left, drawn = 0.0, []
    for name, tokens, class_ in parts:
        wide = WIDTH * tokens / whole
        drawn.append(
            tag("rect", tag("title", f"{name}: {tokens:,} tokens"), x=left, y=0, width=wide, height=22, class_=class_)
        )
        left += wide
    legend = [
        tag(
            "li",
            tag("i", class_=class_.replace("come ", "") if "come" in class_ else class_),
            isolated(f"{name} {tokens:,}"),
        )
        for name, tokens, class_ in parts
    ]
    lead = f"{budget.used:,} of {usable_text(budget)}, counted by {budget.counter}; split {budget.split}."
    drawing = tag("svg", *drawn, viewBox=f"0 0 {WIDTH} 22", role="img", aria_label="Budget")
    return section("Budget", lead, tag("ul", *legend, class_="legend"), tag("div", drawing, class_="scroll"))


def _usage(composition: Composition, colours: Mapping[str, str]) -> Markup:
    usage = composition.usage
    heads = ["provider"] + [
        f"{what} {which}" for what in ("frames", "tokens") for which in ("offered", "admitted", "placed")
    ]
    rows = []
    for name, figures, class_ in [
        *((name, figures, "") for name, figures in usage.providers.items()),
        ("in all", usage.total, "sum"),
    ]:
        frames = (figures.frames_offered, figures.frames_admitted, figures.frames_placed)
        tokens = (figures.tokens_offered, figures.tokens_admitted, figures.tokens_placed)
        who = tag("td", isolated(name), class_="" if class_ else f"who {colours.get(name, '')}")
        rows.append(
            tag(
                "tr",
                who,
                *(tag("td", f"{number:,}", class_="n") for number in (*frames, *tokens)),
                class_=class_ or None,
            )
        )
    head = tag("tr", *(tag("th", title, class_="n" if index else None) for index, title in enumerate(heads)))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    lead = "Offered and admitted tokens count content; placed tokens count whole blocks."
    return section("Usage", lead, tag("div", table, class_="scroll"))


def _replay(checks: Sequence[Check]) -> Markup | None:
    if not checks:
        return None
    rows = [
        tag(
            "tr",
            tag("td", visible(check.name.replace("_", " "))),
            tag("td", WORDS[check.verdict], class_=_VERDICTS[check.verdict]),
            tag(
                "td",
                check.told,
                tag("span", check.limits, class_="note") if check.limits else None,
                *(tag("span", isolated(difference), class_="bad") for difference in check.differences),
            ),
        )
        for check in checks
    ]
    lead = f"The composition worked out again from its own audit: {verdict_text(checks)}."
    return section("Replay", lead, tag("table", tag("tbody", *rows)))
