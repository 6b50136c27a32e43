"""``context-broker providers quarantine`` and ``release``: an operator's say on who is asked."""

from __future__ import annotations

import asyncio

import click

from broker.cli.options import Access, address_option, json_option, tenant_option
from broker.cli.output import write_json, write_lines
from broker.cli.text import clean, of_tenant, plural

LONGEST = 604_800
"""Seconds that a provider may be made to sit out: a week."""

QUARANTINE_EPILOG = """\
\b
--json: {"event": "quarantined", "provider": …, "seconds": …}
"""

RELEASE_EPILOG = """\
\b
--json: {"event": "released", "provider": …, "remaining_seconds": …}
"""


@click.command("quarantine", short_help="Let a provider sit out.", epilog=QUARANTINE_EPILOG)
@click.argument("provider")
@click.option(
    "--seconds",
    type=click.IntRange(1, LONGEST),
    default=3600,
    show_default=True,
    metavar="N",
    help=f"For how long, at most {LONGEST}, which is a week.",
)
@tenant_option
@address_option
@json_option
def quarantine(provider: str, seconds: int, tenant: str, address: str, access: Access, as_json: bool) -> None:
    """Let PROVIDER sit out: it is not asked, and requests see its lane as QUARANTINED.

    A longer time that is running already stays. It needs the role "operator".
    """
    left = asyncio.run(_quarantine(provider, seconds, tenant, address, access))
    if as_json:
        write_json({"event": "quarantined", "provider": provider, "seconds": left})
    else:
        write_lines([f"{clean(provider)} sits out for {left:,} s from now"])


@click.command("release", short_help="End a provider's quarantine.", epilog=RELEASE_EPILOG)
@click.argument("provider")
@tenant_option
@address_option
@json_option
def release(provider: str, tenant: str, address: str, access: Access, as_json: bool) -> None:
    """End PROVIDER's quarantine and forget its lies and failures: it is asked again.

    It needs the role "operator".
    """
    left = asyncio.run(_release(provider, tenant, address, access))
    if as_json:
        write_json({"event": "released", "provider": provider, "remaining_seconds": left})
    elif left:
        write_lines([f"{clean(provider)} is asked again; it would have sat out for {plural(left, 'second')} more"])
    else:
        write_lines([f"{clean(provider)} did not sit out{of_tenant(tenant)}; its lies and failures are forgotten"])


async def _quarantine(provider: str, seconds: int, tenant: str, address: str, access: Access) -> int:
    from broker.client import OperatorClient

    async with OperatorClient(address, **access) as client:
        return await client.quarantine(provider, seconds, tenant=tenant)


async def _release(provider: str, tenant: str, address: str, access: Access) -> int:
    from broker.client import OperatorClient

    async with OperatorClient(address, **access) as client:
        return await client.release(provider, tenant=tenant)
