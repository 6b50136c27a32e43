"""``context-broker report``: what became of a recorded composition's frames, told to the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from broker.cli.options import Access, address_option, json_option
from broker.cli.output import write_json, write_lines
from broker.cli.recorded import COMPOSITION_ID
from broker.cli.text import clean, plural
from broker.core.observations import named, observations
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
    """Report which placed frames of the composition ID were selected, rendered and cited.

    It needs the role "orchestrator".
    """
    if not (cited or rendered or selected or whole_prompt):
        raise click.UsageError("say what was seen: --cited, --rendered, --selected or --whole-prompt")
    seen = asyncio.run(_report(composition_id, (selected, rendered, cited), whole_prompt, address, access))
    if as_json:
        write_json(reported_record(composition_id, seen))
    else:
        write_lines([reported_line(composition_id, seen)])


def reported_record(composition_id: str, seen: Sequence[Observation]) -> dict[str, Any]:
    """What was reported: ``event: reported``."""
    return {"event": "reported", "composition_id": composition_id, **_counts(seen)}


def reported_line(composition_id: str, seen: Sequence[Observation]) -> str:
    """What was reported, for people."""
    counts = _counts(seen)
    told = f"{plural(counts['selected'], 'frame')} selected, {counts['rendered']:,} rendered, {counts['cited']:,} cited"
    return f"reported of composition {clean(composition_id)}: {told}"


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
