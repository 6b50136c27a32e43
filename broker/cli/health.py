"""``context-broker health``: whether a broker takes requests, as an exit code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http.client import OK

import click

from broker.cli.admin import admin_option, fetched
from broker.cli.errors import FAILED, Failure, WrongConfiguration
from broker.cli.options import Access, address_option, json_option
from broker.cli.output import write_json, write_lines
from broker.errors import Unavailable

EPILOG = """\
\b
Exit codes: 0, it serves; 1, it does not, or cannot be reached; 2, it has TLS and you
have not, or the other way round.

\b
--json: {"event": "health", "address": …, "service": …, "status": …}
"""

_SERVING = "SERVING"

_PAUSE = 0.2
"""Seconds between two looks."""


@click.command("health", epilog=EPILOG)
@click.option("--service", default="", metavar="NAME", help="One service.  [default: the broker as a whole]")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="How long to wait until it serves."
)
@admin_option(default=None, help="Ask the HTTP port there instead, which needs no TLS.")
@address_option
@json_option
@click.pass_context
def command(
    context: click.Context, service: str, wait: float, admin: str | None, address: str, access: Access, as_json: bool
) -> None:
    """Say whether the broker serves. It needs no credential, and suits a container's health check.

    A broker that drains or stops does not serve.
    """
    if admin is None:
        # The broker asks for no token here, and one that cannot be read is no reason not to look.
        access = {name: value for name, value in access.items() if not name.startswith("token")}
        status = _waited(lambda: _asked(address, service, access), wait)
    else:
        address = admin
        status = _waited(lambda: _SERVING if fetched(admin, "/readyz")[0] == OK else "NOT_SERVING", wait)
    if as_json:
        write_json({"event": "health", "address": address, "service": service, "status": status})
    else:
        write_lines([f"{address} {status}"])
    if status != _SERVING:
        context.exit(FAILED)


def _waited(ask: Callable[[], str], wait: float) -> str:
    """The first answer that says that it serves, or the last within the time to wait."""
    until = time.monotonic() + wait
    while True:
        late = time.monotonic() >= until
        try:
            status = ask()
        except (Unavailable, Failure) as error:
            if late or isinstance(error, WrongConfiguration):
                raise
            status = ""
        if status == _SERVING or late:
            return status
        time.sleep(_PAUSE)


def _asked(address: str, service: str, access: Access) -> str:
    from broker.client.health import health

    try:
        return asyncio.run(health(address, service, **access))
    except ModuleNotFoundError as error:
        message = f"this needs {error.name}, which is not installed: pip install 'context-broker[server]'"
        raise WrongConfiguration(message, code="FAILED_PRECONDITION", reason="EXTRA_MISSING") from None
