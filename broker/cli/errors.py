"""How a failure ends the command: one plain message on standard error, and an exit code.

With ``--json`` the failure is also the last record on standard output, ``event: error``, so that a reader of the stream
sees it in its place.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import click

from broker.cli.output import write_json
from broker.cli.text import clean
from broker.cli.typed import Words, in_commands, typed
from broker.errors import BrokerError, ConfigError, InvalidArgument, PermissionDenied, Unauthenticated, Unavailable

FAILED = 1
"""The operation failed."""

USAGE = 2
"""Wrong usage, configuration or credential: trying again unchanged cannot help."""

INTERRUPTED = 128 + signal.SIGINT
"""Ctrl-C."""

_JSON = "broker.cli.json"
_NAMES = "broker.cli.names"


class Failure(click.ClickException):
    """A failure in plain words.

    Args:
        message: What went wrong and what to do.
        code: Name of a canonical status, such as ``UNAVAILABLE``.
        reason: Stable UPPER_SNAKE reason.
    """

    exit_code = FAILED

    def __init__(self, message: str, *, code: str = "UNKNOWN", reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def format_message(self) -> str:
        """The message, safe for a terminal: it may quote what another party sent."""
        return "\n".join(map(clean, self.message.split("\n")))

    def record(self) -> dict[str, Any]:
        """The failure as a JSON record."""
        return {"event": "error", "code": self.code, "reason": self.reason, "message": self.message, "violations": []}


class WrongConfiguration(Failure):
    """A failure that trying again unchanged cannot mend."""

    exit_code = USAGE


class BrokerFailure(Failure):
    """An error of the broker's own, which keeps its fields.

    Args:
        error: The error.
        name: What the person who reads it calls a field, by the field's path.
    """

    def __init__(self, error: BrokerError, name: Callable[[str], str] = str) -> None:
        super().__init__(error.message, code=error.code, reason=error.reason)
        self.error = error
        self._name = name

    def format_message(self) -> str:
        """The message, a line for each field where there are several, the limit, and when to try again."""
        error = self.error
        # Providers have a say in it: a lane that failed tells why in words of their own.
        fields = [
            f"{self._name(each.field)}: {each.message}" if each.field else each.message for each in error.violations
        ]
        if len(fields) > 1:
            lines = [f"{len(fields)} fields are wrong [{error.code} {error.reason}]", *(f"  {each}" for each in fields)]
        else:
            alone = bool(fields) and error.message == InvalidArgument.of(error.violations).message
            lines = [f"{fields[0] if alone else error.message} [{error.code} {error.reason}]"]
        lines = [clean(in_commands(line)) for line in lines]
        if error.quota and error.quota not in error.message:
            lines.append(f"  the limit is {clean(error.quota)}")
        if error.retry_after:
            lines.append(f"  trying again after {error.retry_after:g} s may help")
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """The error with its fields, each also as it was typed, its limit, and the seconds after which to try again."""
        violations = [
            {"field": each.field, "option": self._name(each.field), "reason": each.reason, "message": each.message}
            for each in self.error.violations
        ]
        return {
            **super().record(),
            "violations": violations,
            "quota": self.error.quota,
            "retry_after": self.error.retry_after,
        }


class WrongRequest(BrokerFailure):
    """A request that breaks a rule of its own, or that its credential or its TLS does not let through."""

    exit_code = USAGE


def remember_json(context: click.Context) -> None:
    """Notes that this run writes JSON, so that a failure is written as a record too."""
    context.find_root().meta[_JSON] = True


def name_fields(context: click.Context, words: Words) -> None:
    """Notes what this command calls the fields of its request, so that errors speak of what was typed."""
    context.find_root().meta[_NAMES] = partial(typed, words=words, values=context.params)


def end(context: click.Context, error: BaseException) -> NoReturn:
    """Turns what a command raised into what click ends with.

    Raises:
        click.ClickException: With the message and exit code of a failure.
        click.exceptions.Exit: With :data:`INTERRUPTED` after Ctrl-C.
    """
    if isinstance(error, KeyboardInterrupt | click.Abort):
        raise click.exceptions.Exit(INTERRUPTED) from None
    if isinstance(error, InvalidArgument | PermissionDenied | Unauthenticated) or _is_tls(error):
        assert isinstance(error, BrokerError), "all of these are"
        failure: click.ClickException = WrongRequest(error, context.find_root().meta.get(_NAMES, str))
    elif isinstance(error, BrokerError):
        failure = BrokerFailure(error, context.find_root().meta.get(_NAMES, str))
    elif isinstance(error, click.ClickException):
        failure = error
    elif isinstance(error, ConfigError):
        failure = WrongConfiguration(str(error), code="INVALID_ARGUMENT", reason="CONFIG")
    elif isinstance(error, OSError) and error.errno != errno.EPIPE:
        failure = Failure(_os_message(error), reason="OS_ERROR")
    else:
        raise error
    if context.find_root().meta.get(_JSON):
        write_json(failure.record() if isinstance(failure, Failure) else _usage_record(failure))
    raise failure from None


def _is_tls(error: BaseException) -> bool:
    """Whether two ideas of TLS kept a connection from coming about."""
    return isinstance(error, Unavailable) and error.reason == "TLS"


def _os_message(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def _usage_record(failure: click.ClickException) -> dict[str, Any]:
    message = failure.format_message()
    return {"event": "error", "code": "INVALID_ARGUMENT", "reason": "USAGE", "message": message, "violations": []}
