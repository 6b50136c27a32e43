"""``context-broker query``: one question, and the whole composition to look at."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.asked import asked, asked_record
from broker.cli.encode import Record, accepted_record, audit_record, completed_record, placed_record, update_record
from broker.cli.errors import name_fields
from broker.cli.left_out import LEFT_OUT_ROWS
from broker.cli.options import Access, address_option, json_option
from broker.cli.output import style_of, write_bytes, write_json, write_lines
from broker.cli.progress import Progress, progress
from broker.cli.question import request_of
from broker.cli.question_options import one_text, question_options
from broker.cli.remarks import not_on_record, remarks
from broker.cli.saved import savable, save_records
from broker.cli.show import composition_lines
from broker.cli.snapshots import snapshot_record
from broker.cli.text import clean
from broker.cli.typed import QUERY
from broker.core.composition import Composition

if TYPE_CHECKING:
    from broker.client.calls import ComposeOptions

EPILOG = """\
\b
--json records, in this order:
  accepted   composition_id, request_id, lanes [{provider, source, max_frames, max_tokens}],
             request {goal, max_tokens, strategy, floors, …}, ms
  lane       provider, state, frames, message, ms             as lanes change
  snapshot   number, collecting, records, ms                  with --snapshots
  placed     position, total, rank, provider, local_rank, cost, citation_label,
             vouchers, frame, rendered                        in prompt order
  audit      provider, frame_id, fate, reason, detail, lane_place, local_rank, rank,
             position, cost, remaining, duplicate_of, conflicts, …; score with --scores;
             prior_rank and rerank_score where a reranker was applied
  completed  audit_state, strategy, placement, duplicates, budget, lanes, floors,
             rows, reasons, rerank, usage, citations, preamble, separator, …, ms
audit_state: RECORDED; DEGRADED, the store was away and nothing is on record; or
NOT_KEPT. What is on record: see compositions.
preamble, every rendered with separator between, and closing are the prompt.
records are the placed, audit and completed of a composition whole in itself,
which the next snapshot, or placed, supersedes.
usage counts tokens_offered and tokens_admitted of contents, tokens_placed of
whole blocks, with header and fence.
ms: since the request was sent. --save writes the same lines without snapshots,
which explain reads.
"""


@click.command("query", epilog=EPILOG)
@click.argument("goal", nargs=-1, required=True, metavar="GOAL", callback=one_text)
@address_option
@question_options
@click.option("--prompt", is_flag=True, help="Print the prompt alone, byte for byte.")
@click.option("--all", "everything", is_flag=True, help="List every frame that was left out.")
@click.option("--snapshots", is_flag=True, help="Show what there is each time a lane has ended.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=savable,
    metavar="FILE",
    help="Keep the composition in a file: see explain, verify-citations.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    goal: str,
    address: str,
    access: Access,
    prompt: bool,
    everything: bool,
    snapshots: bool,
    quiet: bool,
    save: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask the providers for GOAL and show which frames stand where in the prompt, and why.

    A floor is in its provider's own scale, and no option spans providers: their scores cannot be compared. Only
    --strategy score_descending does so all the same, and is flagged wherever it shows. It needs the role
    "orchestrator".
    """
    if prompt and as_json:
        raise click.UsageError("--prompt and --json contradict each other: --json holds the prompt in its parts")
    name_fields(context, QUERY)
    request = request_of(**options)
    request["snapshots"] = snapshots
    kept: list[Record] = []

    def show(record: Record) -> None:
        if as_json:
            write_json(record)
        if save is not None and record["event"] != "snapshot":
            kept.append(record)

    with progress(quiet=quiet or as_json) as shown:
        composition = asyncio.run(_ask(address, access, goal, request, shown, show))
    if save is not None:
        save_records(save, kept)
    if prompt:
        write_bytes(composition.prompt.encode())
        if not composition.prompt:
            click.echo("note: there is no prompt: --mode none renders none; --json has the frames' content", err=True)
    elif not as_json:
        rows = None if everything else LEFT_OUT_ROWS
        write_lines(
            [
                f"question  {clean(goal)}",
                f"ids       composition {clean(composition.composition_id)}{not_on_record(composition)}",
                f"          request {clean(composition.request_id)}",
                *composition_lines(composition, style_of(sys.stdout), rows=rows),
            ]
        )
    lanes = (lane.provider for lane in request.get("inline_lanes", ()))
    for remark in remarks(composition, tuple(lanes), tuple(request.get("expect_pushes", ()))):
        click.echo(f"note: {remark}", err=True)


async def _ask(
    address: str,
    access: Access,
    goal: str,
    request: ComposeOptions,
    shown: Progress,
    show: Callable[[Record], None],
) -> Composition:
    from broker.client import Accepted, ContextClient, LaneSource, LaneUpdate, Snapshot
    from broker.core.composition import Placed

    asked_for = asked_record(asked(goal, request))
    started = time.monotonic()

    def timed(record: Record) -> Record:
        return {**record, "ms": round((time.monotonic() - started) * 1000, 1)}

    async with ContextClient(address, **access) as client:
        stream = client.stream(goal, **request)
        async with contextlib.aclosing(stream):
            async for event in stream:
                if isinstance(event, Accepted):
                    # What the request itself brought is there already.
                    shown.opened([lane.provider for lane in event.lanes if lane.source is not LaneSource.INLINE])
                    show(timed({**accepted_record(event), "request": asked_for}))
                elif isinstance(event, LaneUpdate):
                    shown.changed(event.provider, event.state, event.frames, event.message)
                    show(timed(update_record(event)))
                elif isinstance(event, Snapshot):
                    shown.snapshot(event)
                    show(timed(snapshot_record(event)))
                elif isinstance(event, Placed):
                    show(placed_record(event))
                else:
                    for row in event.audit:
                        show(audit_record(row))
                    show(timed(completed_record(event)))
                    return event
    raise AssertionError("a stream that ends well ends with its composition")
