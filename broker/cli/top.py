"""``context-broker top``: what a broker does now, second by second."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http.client import OK
from typing import TYPE_CHECKING, Any

import click

from broker.cli.admin import admin_option, fetched
from broker.cli.errors import Failure, WrongConfiguration
from broker.cli.options import Access, address_option, json_option, tenant_option
from broker.cli.output import style_of, write_json, write_lines

if TYPE_CHECKING:
    from broker.cli.figures import Scrape
    from broker.client import ListedProvider

EPILOG = """\
\b
Rates are per second, over the time between two looks. "late" is what of a
provider's lanes was cut short or gave nothing by the deadline.

\b
--json: a record to each look
  ready, requests {…}, lanes {…}, sessions, memory_bytes, loop_lag_p99_ms,
  store_p99_ms, providers [{provider, instances, in_flight, lanes_per_second, …}]
"""


@click.command("top", epilog=EPILOG)
@admin_option(default="127.0.0.1:9464", help="The broker's admin.listen, where its metrics are.")
@click.option("--every", type=click.FloatRange(min=0.2), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--times", type=click.IntRange(min=1), metavar="N", help="Looks.  [default: until Ctrl-C]")
@tenant_option
@address_option
@json_option
def command(
    admin: str, every: float, times: int | None, tenant: str, address: str, access: Access, as_json: bool
) -> None:
    """Show what the broker does now: requests, lanes, memory, and each provider's load and rates.

    It needs a broker with admin.listen set, and the role "orchestrator" or "operator".
    """
    with ExitStack() as stack:
        show = _shower(address, as_json, stack)
        asyncio.run(_watch(admin, every, times, tenant, address, access, show))


def _shower(address: str, as_json: bool, stack: ExitStack) -> Callable[[dict[str, Any]], None]:
    """What suits standard output: records, a picture that changes in place, or one picture after the other."""
    from broker.cli.top_view import lines

    if as_json:
        return write_json
    if sys.stdout.isatty():
        try:
            from rich.live import Live
            from rich.text import Text
        except ImportError:
            pass
        else:
            live = stack.enter_context(Live(auto_refresh=False, screen=False))
            return lambda shown: live.update(
                Text.from_ansi("\n".join(lines(shown, address, style_of(sys.stdout))), no_wrap=True), refresh=True
            )
    return lambda shown: write_lines([*lines(shown, address, style_of(sys.stdout)), ""])


async def _watch(
    admin: str,
    every: float,
    times: int | None,
    tenant: str,
    address: str,
    access: Access,
    show: Callable[[dict[str, Any]], None],
) -> None:
    from broker.cli.figures import Change
    from broker.cli.top_view import record
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        before, looks = await asyncio.to_thread(_scrape, admin), 0
        while times is None or looks < times:
            await asyncio.sleep(every)
            providers: Sequence[ListedProvider] = await client.providers(tenant=tenant)
            now = await asyncio.to_thread(_scrape, admin)
            show(record(Change(before, now), providers))
            before, looks = now, looks + 1


def _scrape(admin: str) -> Scrape:
    from broker.cli.figures import scraped

    status, body = fetched(admin, "/metrics")
    try:
        if status == OK:
            return scraped(body, time.monotonic())
        told = f"it answered {status}"
    except ValueError as error:
        told = str(error)
    except ModuleNotFoundError as error:
        message = f"this needs {error.name}, which is not installed: pip install 'context-broker[server]'"
        raise WrongConfiguration(message, code="FAILED_PRECONDITION", reason="EXTRA_MISSING") from None
    raise Failure(f"there are no metrics at http://{admin}/metrics: {told}", code="UNAVAILABLE", reason="NO_METRICS")
