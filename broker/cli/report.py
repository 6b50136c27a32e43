"""``context-broker report``: what became of a recorded composition's frames, told to the broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import click

from broker.cli.errors import USAGE, Failure
from broker.cli.options import Access, address_option, json_option, nearest
from broker.cli.output import write_json, write_lines
from broker.cli.recorded import COMPOSITION_ID
from broker.cli.text import clean, plainly, plural
from broker.core.composition import Citation, Composition
from broker.core.frames import FrameRef
from broker.core.records import Observation

EPILOG = """\
\b
A frame is named by its citation label or as PROVIDER/ID. What is cited was rendered,
and what is rendered was selected: the stronger observation brings the others along.
Reports add up: what was seen once stays seen. verify-citations --report reads the
citations out of an answer instead.
\b
--json: {"event": "reported", "composition_id": …, "selected": …, "rendered": …, "cited": …}
"""


@click.command("report", epilog=EPILOG)
@click.argument("composition_id", metavar="ID", type=COMPOSITION_ID)
@click.option("--cited", multiple=True, metavar="LABEL", help="The model's answer cites this frame.")
@click.option("--rendered", multiple=True, metavar="LABEL", help="This frame stood in the prompt that the model saw.")
@click.option("--selected", multiple=True, metavar="LABEL", help="The agent chose this frame.")
@click.option("--whole-prompt", is_flag=True, help="Every placed frame stood in the prompt that the model saw.")
@address_option
@json_option
def command(
    composition_id: str,
    cited: tuple[str, ...],
    rendered: tuple[str, ...],
    selected: tuple[str, ...],
    whole_prompt: bool,
    address: str,
    access: Access,
    as_json: bool,
) -> None:
    """Report which placed frames of the composition ID were selected, rendered and cited."""
    if not (cited or rendered or selected or whole_prompt):
        raise click.UsageError("say what was seen: --cited, --rendered, --selected or --whole-prompt")
    seen = asyncio.run(_report(composition_id, (selected, rendered, cited), whole_prompt, address, access))
    if as_json:
        write_json(reported_record(composition_id, seen))
    else:
        write_lines([reported_line(composition_id, seen)])


def observations(
    composition: Composition,
    *,
    selected: Iterable[FrameRef] = (),
    rendered: Iterable[FrameRef] = (),
    cited: Iterable[FrameRef] = (),
) -> list[Observation]:
    """What was seen, an observation for each frame in prompt order: the stronger brings the weaker along."""
    quoted = frozenset(cited)
    shown = quoted.union(rendered)
    chosen = shown.union(selected)
    refs = (citation.frame for citation in composition.citations)
    return [Observation(ref.provider, ref.frame_id, True, ref in shown, ref in quoted) for ref in refs if ref in chosen]


def reported_record(composition_id: str, seen: Sequence[Observation]) -> dict[str, Any]:
    """What was reported: ``event: reported``."""
    return {"event": "reported", "composition_id": composition_id, **_counts(seen)}


def reported_line(composition_id: str, seen: Sequence[Observation]) -> str:
    """What was reported, for people."""
    counts = _counts(seen)
    told = f"{plural(counts['selected'], 'frame')} selected, {counts['rendered']:,} rendered, {counts['cited']:,} cited"
    return f"reported of composition {clean(composition_id)}: {told}"


def named(composition: Composition, name: str) -> FrameRef:
    """The placed frame of a label, or of ``PROVIDER/ID``.

    Raises:
        Failure: There is none (``FRAME_NOT_PLACED``), or several share the label (``LABEL_AMBIGUOUS``).
    """
    meant: dict[str, list[Citation]] = defaultdict(list)
    for citation in composition.citations:
        ref = citation.frame
        for text in dict.fromkeys((citation.label, plainly(citation.label), f"{ref.provider}/{ref.frame_id}")):
            meant[text].append(citation)
    found = meant.get(name, [])
    if not found:
        message = f"the composition placed no frame {clean(name)!r}{clean(nearest(name, meant))}"
        raise _Wrong(message, code="INVALID_ARGUMENT", reason="FRAME_NOT_PLACED")
    if len(found) > 1:
        names = ", ".join(f"{one.frame.provider}/{one.frame.frame_id}" for one in found)
        message = f"several frames share the label {clean(name)!r}; name one of them: {clean(names)}"
        raise _Wrong(message, code="INVALID_ARGUMENT", reason="LABEL_AMBIGUOUS")
    return found[0].frame


class _Wrong(Failure):
    """A name that names no frame."""

    exit_code = USAGE


def _counts(seen: Sequence[Observation]) -> dict[str, int]:
    return {name: sum(getattr(one, name) for one in seen) for name in ("selected", "rendered", "cited")}


async def _report(
    composition_id: str, names: tuple[tuple[str, ...], ...], whole_prompt: bool, address: str, access: Access
) -> list[Observation]:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        composition = (await client.composition(composition_id)).composition
        selected, rendered, cited = ([named(composition, name) for name in some] for some in names)
        if whole_prompt:
            rendered = [citation.frame for citation in composition.citations]
        seen = observations(composition, selected=selected, rendered=rendered, cited=cited)
        if seen:
            await client.report(composition_id, seen)
    return seen
