"""``context-broker drain``: a broker that takes no new requests."""

from __future__ import annotations

import asyncio

import click

from broker.cli.options import Access, address_option, json_option
from broker.cli.output import write_json, write_lines
from broker.cli.text import plural

EPILOG = """\
\b
--json: {"event": "draining", "in_flight": …}
"""


@click.command("drain", epilog=EPILOG)
@address_option
@json_option
def command(address: str, access: Access, as_json: bool) -> None:
    """Have the broker take no new requests and send its providers away; running requests finish.

    Its health says NOT_SERVING from then on. It goes on running until it is stopped, and cannot be undrained. Ask again
    to see how many requests still run. It needs the role "operator".
    """
    in_flight = asyncio.run(_drain(address, access))
    if as_json:
        write_json({"event": "draining", "in_flight": in_flight})
    else:
        running = f"{plural(in_flight, 'request')} still running" if in_flight else "none is running"
        write_lines([f"the broker at {address} takes no new requests; {running}"])


async def _drain(address: str, access: Access) -> int:
    from broker.client import OperatorClient

    async with OperatorClient(address, **access) as client:
        return await client.drain()
