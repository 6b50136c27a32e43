"""Options and their value types that several commands share. A wrong value gets an error that shows the right form."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import click

from broker.addresses import address_problem
from broker.cli.errors import remember_json
from broker.core.frames import FrameRef
from broker.core.request import Floor
from broker.core.scores import Direction, ScoreScale

DEFAULT_ADDRESS = "127.0.0.1:7433"

Access: TypeAlias = "dict[str, Any]"
"""What proves who asks, as keywords of the clients."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    # Generic for type checkers alone: older releases of click have a plain class here.
    _ParamType = click.ParamType


def _remember(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    if value:
        remember_json(context)
    return value


def _reachable(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    problem = address_problem(value, unix=True)
    if problem is not None:
        raise click.BadParameter(problem)
    return value


def json_option(command: _Command) -> _Command:
    """``--json``: machine-readable output, one object to a line."""
    option = click.option(
        "--json", "as_json", is_flag=True, is_eager=True, callback=_remember, help="One JSON object to a line."
    )
    return option(command)


def address_option(command: _Command) -> _Command:
    """``--address`` and what proves who asks; the command gets ``address``, and the rest as ``access``."""

    @wraps(command)
    def accessing(*args: Any, **values: Any) -> Any:
        access = {name: values.pop(name) for name in _ACCESS}
        if access["token_file"] is None:
            # No option: what stands in a command line, every user of the machine can read.
            access["token"] = os.environ.get("CONTEXT_BROKER_TOKEN") or None
        return command(*args, access=access, **values)

    wrapped: Any = accessing
    for option in reversed((_ADDRESS, *_ACCESS.values())):
        wrapped = option(wrapped)
    return cast("_Command", wrapped)


_FILE_THERE = click.Path(exists=True, dir_okay=False, path_type=Path)

_ADDRESS = click.option(
    "--address",
    default=DEFAULT_ADDRESS,
    envvar="CONTEXT_BROKER_ADDRESS",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT",
    callback=_reachable,
    help="Where the broker listens.",
)

_ACCESS: Mapping[str, Callable[[Any], Any]] = {
    "tls_ca": click.option(
        "--tls-ca",
        type=_FILE_THERE,
        envvar="CONTEXT_BROKER_TLS_CA",
        show_envvar=True,
        help="Certificate authority (PEM) of the broker's certificate; turns TLS on.",
    ),
    "tls_cert": click.option(
        "--tls-cert",
        type=_FILE_THERE,
        envvar="CONTEXT_BROKER_CLIENT_CERT",
        show_envvar=True,
        help="Your own certificate chain (PEM), where the broker asks for one; goes with --tls-key.",
    ),
    "tls_key": click.option(
        "--tls-key",
        type=_FILE_THERE,
        envvar="CONTEXT_BROKER_CLIENT_KEY",
        show_envvar=True,
        help="Private key (PEM) of --tls-cert.",
    ),
    "token_file": click.option(
        "--token-file",
        type=_FILE_THERE,
        envvar="CONTEXT_BROKER_TOKEN_FILE",
        help="File of your bearer token.  [env var: CONTEXT_BROKER_TOKEN_FILE; of the token: CONTEXT_BROKER_TOKEN]",
    ),
}
"""What a client brings to a broker, by the keyword of the client that takes it."""


tenant_option = click.option(
    "--tenant", default="", metavar="NAME", help="For operators: whose are meant.  [default: your own tenant's]"
)
"""``--tenant``: whose providers and compositions are meant."""


def nearest(word: str, words: Collection[str]) -> str:
    """``; did you mean 'x'?`` where a word is close to one of the known ones, else nothing."""
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class _Form(_ParamType):
    """A value with a form of its own."""

    def __init__(self, name: str, example: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._example = example
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}; expected {self.name}, such as {self._example}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002 - click's signature
        return self.name


def _floor(text: str) -> Floor:
    head, value = _split(text, "=")
    provider, scale = _split(head, ":")
    return Floor(provider, scale, _number(value))


def _weight(text: str) -> tuple[str, float]:
    provider, value = _split(text, "=")
    return provider, _number(value)


def _param(text: str) -> tuple[str, object]:
    name, value = _split(text, "=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _ref(text: str) -> FrameRef:
    return FrameRef(*_split(text, ":"))


def _scale(text: str) -> ScoreScale:
    name, *rest = text.split(":")
    if rest == [Direction.AS_SENT.value]:
        return ScoreScale(name, direction=Direction.AS_SENT)
    if len(rest) not in (2, 3):
        raise ValueError("a scale has a name, two ends and a direction")
    direction = _DIRECTIONS.get(rest[2] if len(rest) == 3 else "higher")
    if direction is None:
        raise ValueError(f"{rest[2]!r} is not a direction: give 'higher' or 'lower', whichever is better")
    return ScoreScale(name, _number(rest[0]), _number(rest[1]), direction)


_DIRECTIONS = {"higher": Direction.HIGHER_IS_BETTER, "lower": Direction.LOWER_IS_BETTER}


def _named_scale(text: str) -> tuple[str, ScoreScale]:
    name, scale = _split(text, "=")
    return name, _scale(scale)


def _named_file(text: str) -> tuple[str, Path]:
    name, path = _split(text, "=")
    return name, Path(path)


def _split(text: str, mark: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not found or not left or not right:
        raise ValueError(f"something is missing around {mark!r}")
    return left, right


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


class _NamedFile(_Form):
    """A name and a file that is there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, path = super().convert(value, param, ctx)
        return name, FILE.convert(str(path), param, ctx)


FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
"""A file to read, ``-`` for standard input."""

FLOOR = _Form("PROVIDER:SCALE=VALUE", "symbols:name-match=0.4", _floor)
WEIGHT = _Form("PROVIDER=WEIGHT", "files=2", _weight)
PARAM = _Form("NAME=VALUE", "k=60", _param)
REF = _Form("PROVIDER:FRAME_ID", "files:README.md#1", _ref)
SCALE = _Form("ID:MIN:MAX[:higher|lower] or ID:as_sent", "bm25:-inf:0:lower", _scale)
NAMED_SCALE = _Form("NAME=ID:MIN:MAX[:higher|lower] or NAME=ID:as_sent", "memory=cosine:-1:1", _named_scale)
LOG_LEVEL = click.Choice(["debug", "info", "warning", "error"])
NAMED_FILE = _NamedFile("NAME=FILE", "memory=notes.jsonl", _named_file)
