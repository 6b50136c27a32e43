"""``context-broker config``: make a configuration file, see what is in force, check it before anything runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.config_options import config_option, secrets_option
from broker.cli.errors import WrongConfiguration
from broker.cli.options import json_option
from broker.cli.output import write_json, write_lines

if TYPE_CHECKING:
    from broker.config import Read

_INIT = Path("context-broker.toml")
"""What ``init`` writes where no file is named."""

_EXTRA = "pip install 'context-broker[server]'"

SHOW_EPILOG = """\
\b
--json: a record for each key
  key, value, origin, reloadable
"""

CHECK_EPILOG = """\
\b
--json: {"event": "good", "file": …, "secrets": …, "remarks": […]}
"""


EPILOG = """\
Flags of "serve" stand above the environment, that above secret files, those
above the TOML file. "show" and "check" take --json.
"""


@click.group("config", epilog=EPILOG)
def command() -> None:
    """Make a configuration file, show what is in force, or check it."""


@command.command("init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=_INIT)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(file: Path, force: bool) -> None:
    """Write FILE with every key, commented out, with its default and what it is.

    FILE is context-broker.toml where none is named; "-" writes to standard output.
    """
    _needs_settings()
    from broker.cli.config_sample import config_file

    text = config_file()
    if str(file) == "-":
        write_lines(text.splitlines())
        return
    try:
        # No one else may change what says who may call, whatever the umask is.
        file.touch(mode=0o640, exist_ok=force)
    except FileExistsError:
        raise WrongConfiguration(
            f"{file} is there already; give another name, or --force to write over it", reason="FILE_EXISTS"
        ) from None
    file.write_text(text, encoding="utf-8")
    name = shlex.quote(str(file))
    write_lines(
        [
            f"wrote {file}; it is used where it is named:",
            f"  context-broker config check --config {name}",
            f"  context-broker serve --config {name}       (or CONTEXT_BROKER_CONFIG={name})",
        ]
    )


@command.command("show", epilog=SHOW_EPILOG)
@config_option
@secrets_option
@click.option("--changed", is_flag=True, help="Leave out what has its default.")
@json_option
def show(file: Path | None, secrets: Path | None, changed: bool, as_json: bool) -> None:
    """Show every value in force, where it came from, and whether SIGHUP takes a new one.

    What a secret file holds is not shown, and neither is a password within an address.
    """
    _needs_settings()
    from broker.cli.config_values import values

    found = _read(file, secrets)
    shown = [each for each in values(found) if not changed or each.origin != "default"]
    if as_json:
        for each in shown:
            write_json({"key": each.key, "value": each.value, "origin": each.origin, "reloadable": each.reloadable})
        return
    write_lines(_lines([(each.section, each.line, _told(each.origin, each.reloadable)) for each in shown]))


def _told(origin: str, reloadable: bool) -> str:
    return f"{origin}{'; SIGHUP' if reloadable else ''}"


def _lines(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    """TOML with the origins behind it as remarks, in a column of their own as far as the values are short."""
    column = min(48, max((len(line) for _, line, _ in rows), default=0))
    section = None
    for heading, line, remark in rows:
        if heading != section:
            if section is not None:
                yield ""
            yield f"[{heading}]"
            section = heading
        yield f"{line:<{column}}  # {remark}"


@command.command("check", epilog=CHECK_EPILOG)
@config_option
@secrets_option
@json_option
def check(file: Path | None, secrets: Path | None, as_json: bool) -> None:
    """Check all that "serve" would check before it opens a port, and open none.

    Keys and values, and the files that they name: certificates, keys, tokens, principals, tokenizers, models, and each
    plugin before the gate. Whether a port is free and a store can be reached is seen when the broker starts.
    """
    _needs_settings()
    found = _read(file, secrets)
    from broker.cli.config_checking import check_startable

    odd = check_startable(found.config)
    named: Mapping[str, Any] = {
        "file": None if found.file is None else str(found.file),
        "secrets": None if found.secrets is None else str(found.secrets),
    }
    if as_json:
        write_json({"event": "good", **named, "remarks": odd})
    else:
        told = ", ".join(value for value in named.values() if value) or "the environment and the defaults"
        if found.file is None and _INIT.exists():
            odd.append(f"{_INIT} is here and was not read: name it with --config")
        write_lines([f"the configuration is good: {told}", *(f"  but {each}" for each in odd)])


@command.command("docs")
def docs() -> None:
    """Write every key as a page of Markdown: its type and range, its default, and all that is said of it."""
    _needs_settings()
    from broker.cli.config_page import config_page

    write_lines(config_page().splitlines())


def _read(file: Path | None, secrets: Path | None) -> Read:
    from broker.config import read

    return read(file=file, secrets=secrets)


def _needs_settings() -> None:
    try:
        import broker.config  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("broker", "contextbroker"):
            raise
        message = f"the daemon's configuration needs {error.name}, which is not installed: {_EXTRA}"
        raise WrongConfiguration(message, code="FAILED_PRECONDITION", reason="EXTRA_MISSING") from None
