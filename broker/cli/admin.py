"""A broker's HTTP port for operators, as commands ask it."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any

import click

from broker.addresses import address_problem
from broker.cli.errors import Failure

PATIENCE = 5.0
"""Seconds that one answer may take."""


def _place(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (problem := address_problem(value)):
        raise click.BadParameter(problem)
    return value


def admin_option(*, default: str | None, help: str) -> Callable[[Any], Any]:  # noqa: A002 - click's name
    """``--admin``: where the port is; the command gets it as ``admin``."""
    return click.option(
        "--admin",
        default=default,
        envvar="CONTEXT_BROKER_ADMIN_ADDRESS",
        show_default=default is not None,
        show_envvar=True,
        metavar="HOST:PORT",
        callback=_place,
        help=help,
    )


def fetched(admin: str, path: str) -> tuple[int, str]:
    """What the port answers: the status, and the text.

    Raises:
        Failure: It cannot be reached.
    """
    connection = http.client.HTTPConnection(admin, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Failure(
            f"no broker's admin port answers at {admin} ({told}); set admin.listen, and give that address with --admin",
            code="UNAVAILABLE",
            reason="UNREACHABLE",
        ) from None
    finally:
        connection.close()
