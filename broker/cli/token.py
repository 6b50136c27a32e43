"""``context-broker token``: bearer tokens for an operator's file."""

from __future__ import annotations

import click

from broker.auth.tokens import new_token, token_line
from broker.cli.options import json_option
from broker.cli.output import write_json, write_lines

EPILOG = """\
The token goes to whoever is to be SUBJECT, who keeps it secret; the line goes into the file that auth.tokens_file
names. The broker sees the new line within seconds. To revoke the token, take its line out.

\b
--json: {"event": "token", "token": …, "line": …}
"""


@click.group("token")
def command() -> None:
    """Make bearer tokens."""


@command.command("new", epilog=EPILOG)
@click.argument("subject")
@json_option
def new(subject: str, as_json: bool) -> None:
    """Print a new token for SUBJECT, and its line for the broker's tokens file. Nothing is kept."""
    token = new_token()
    try:
        line = token_line(token, subject)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="SUBJECT") from None
    if as_json:
        write_json({"event": "token", "token": token, "line": line})
    else:
        write_lines([f"token: {token}", f"line:  {line}"])
