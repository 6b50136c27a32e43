"""``context-broker query``: one question, and the whole composition to look at."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.encode import Record, accepted_record, audit_record, completed_record, placed_record, update_record
from broker.cli.left_out import LEFT_OUT_ROWS
from broker.cli.options import address_option, json_option
from broker.cli.output import style_of, write_bytes, write_json, write_lines
from broker.cli.progress import Progress, progress
from broker.cli.question import question_options, request_of
from broker.cli.show import composition_lines
from broker.cli.text import clean
from broker.core.composition import Composition

if TYPE_CHECKING:
    from broker.client.calls import ComposeOptions

EPILOG = """\
\b
--json records, in this order:
  accepted   composition_id, request_id, lanes [{provider, source, max_frames, max_tokens}]
  lane       provider, state, frames, message                 as lanes change
  placed     position, total, rank, provider, local_rank, cost, citation_label,
             vouchers, frame, rendered                        in prompt order
  audit      provider, frame_id, fate, reason, detail, lane_place, local_rank, rank,
             position, cost, remaining, duplicate_of, conflicts, …; score with --scores
  completed  strategy, placement, duplicates, budget, lanes, floors, rows, reasons,
             usage, citations, preamble, closing
preamble, every rendered and closing, joined in order, are the prompt.
"""


@click.command("query", epilog=EPILOG)
@click.argument("goal")
@address_option
@question_options
@click.option("--prompt", is_flag=True, help="Print the prompt alone, byte for byte.")
@click.option("--all", "everything", is_flag=True, help="List every frame that was left out.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def command(
    goal: str,
    address: str,
    tls_ca: Path | None,
    prompt: bool,
    everything: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask the providers for GOAL and show which frames stand where in the prompt, and why.

    A floor is in its provider's own scale, and no option spans providers: their scores cannot be compared. Only
    --strategy score_descending does so all the same, and is flagged wherever it shows.
    """
    if prompt and as_json:
        raise click.UsageError("--prompt and --json contradict each other: --json holds the prompt in its parts")
    request = request_of(**options)
    show: Callable[[Record], None] = write_json if as_json else _nothing
    with progress(quiet=quiet or as_json) as shown:
        composition = asyncio.run(_ask(address, tls_ca, goal, request, shown, show))
    if prompt:
        write_bytes(composition.prompt.encode())
    elif not as_json:
        rows = None if everything else LEFT_OUT_ROWS
        write_lines(
            [
                f"question  {clean(goal)}",
                f"ids       composition {clean(composition.composition_id)}, request {clean(composition.request_id)}",
                *composition_lines(composition, style_of(sys.stdout), rows=rows),
            ]
        )


def _nothing(_record: Record) -> None:
    """Where no records are wanted."""


async def _ask(
    address: str,
    tls_ca: Path | None,
    goal: str,
    request: ComposeOptions,
    shown: Progress,
    show: Callable[[Record], None],
) -> Composition:
    from broker.client import Accepted, ContextClient, LaneSource, LaneUpdate
    from broker.core.composition import Placed

    async with ContextClient(address, tls_ca=tls_ca) as client:
        stream = client.stream(goal, **request)
        async with contextlib.aclosing(stream):
            async for event in stream:
                if isinstance(event, Accepted):
                    # What the request itself brought is there already.
                    shown.opened([lane.provider for lane in event.lanes if lane.source is not LaneSource.INLINE])
                    show(accepted_record(event))
                elif isinstance(event, LaneUpdate):
                    shown.changed(event.provider, event.state, event.frames, event.message)
                    show(update_record(event))
                elif isinstance(event, Placed):
                    show(placed_record(event))
                else:
                    for row in event.audit:
                        show(audit_record(row))
                    show(completed_record(event))
                    return event
    raise AssertionError("a stream that ends well ends with its composition")
