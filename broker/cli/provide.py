"""``context-broker provide``: a ready-made provider over a folder, attached to a broker."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.cli.encode import scale_record
from broker.cli.errors import name_fields
from broker.cli.options import LOG_LEVEL, Access, address_option, json_option
from broker.cli.output import style_of, write_json, write_lines
from broker.cli.parent import exit_with_parent_option
from broker.cli.show import scale_text
from broker.cli.typed import PROVIDE
from broker.providers import PROVIDERS

EPILOG = """\
\b
files    passages of text, Markdown and source, by SQLite FTS5 and its bm25
symbols  definitions in source files, by name and docstring
history  git commits, by the number of matched words

\b
--json: a record each time it attaches (again after a lost connection)
  {"event": "attached", "provider": …, "session": …, "scale": {…}}
"""


@click.command("provide", epilog=EPILOG)
@click.argument("name", type=click.Choice(list(PROVIDERS)))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@address_option
@click.option("--name", "other_name", metavar="OTHER", help="Attach under this name instead of the provider's own.")
@click.option("--instance-id", metavar="ID", help="This replica's name, stable over restarts.  [default: a new one]")
@click.option(
    "--log-level",
    type=LOG_LEVEL,
    default="info",
    show_default=True,
    help="Of the log on standard error.",
)
@json_option
@exit_with_parent_option
@click.pass_context
def command(
    context: click.Context,
    name: str,
    directory: Path,
    address: str,
    access: Access,
    other_name: str | None,
    instance_id: str | None,
    log_level: str,
    as_json: bool,
) -> None:
    """Attach the provider NAME over the folder DIR; run until SIGTERM or Ctrl-C, then drain and exit 0.

    It needs the role "provider".
    """
    from broker.client import Provider
    from broker.telemetry import logs

    name_fields(context, PROVIDE)
    logs.configure(log_level)
    source = PROVIDERS[name].open(directory)
    try:
        provider = Provider(
            other_name or source.name,
            source.answer,
            scale=source.scale,
            kinds=source.kinds,
            instance_id=instance_id,
        )

        def attached(session: str) -> None:
            if as_json:
                scale = scale_record(source.scale)
                write_json({"event": "attached", "provider": provider.name, "session": session, "scale": scale})
            else:
                style = style_of(sys.stdout)
                scale_line = scale_text(source.scale, style)
                write_lines([f"{provider.name} is attached to {address} (session {session}, {scale_line})"])

        provider.run(address, **access, on_attached=attached)
    finally:
        source.close()
