"""``context-broker push``: frames for one request, from a service that holds no session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from broker.cli.errors import name_fields
from broker.cli.frames_file import read_checked_frames
from broker.cli.options import FILE, SCALE, Access, address_option, json_option
from broker.cli.output import write_json, write_lines
from broker.cli.text import clean, plural
from broker.cli.typed import PUSH
from broker.core.frames import Frame
from broker.core.scores import UNIT, ScoreScale

EPILOG = """\
\b
A line of FILE is one JSON object:
  id, title, content            texts, required
  score                         a number on the scale; left out only on an as_sent scale
  kind                          snippet, symbol, fact, doc, memory, episode, graph
  citation_label, uri           texts
  provenance                    [{type, uri, range, digest, method, by}, …]
  relations                     [{rel, target_uri, display_name}, …]
  valid_from, valid_to, recorded_at   YYYY-MM-DDTHH:MM:SSZ
  token_cost, content_digest    declared only if they are true

\b
--json: {"event": "pushed", "provider": …, "request_id": …, "frames": …}
"""


@click.command("push", epilog=EPILOG)
@click.argument("provider")
@click.argument("request_id")
@click.argument("file", type=FILE)
@address_option
@click.option("--scale", type=SCALE, default=None, help="Scale of the scores.  [default: unit:0:1:higher]")
@json_option
@click.pass_context
def command(
    context: click.Context,
    provider: str,
    request_id: str,
    file: Path,
    address: str,
    access: Access,
    scale: ScoreScale | None,
    as_json: bool,
) -> None:
    """Push the frames in FILE (- for standard input) as PROVIDER's for the request REQUEST_ID.

    It may come before or after the query that names the request (query --request-id … --expect-push …). FILE is read
    and checked whole first, by the rules that the broker goes by: when one line is wrong, its number is told, nothing
    is sent and the exit code is 1. It needs the role "provider".
    """
    name_fields(context, PUSH)
    frames = read_checked_frames(file, provider, scale or UNIT)
    count = asyncio.run(_push(address, access, provider, request_id, frames, scale or UNIT))
    if as_json:
        write_json({"event": "pushed", "provider": provider, "request_id": request_id, "frames": count})
    else:
        write_lines([f"{plural(count, 'frame')} pushed as {clean(provider)} for request {clean(request_id)}"])


async def _push(
    address: str, access: Access, provider: str, request_id: str, frames: list[Frame], scale: ScoreScale
) -> int:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        return await client.push(provider, request_id, frames, scale=scale)
