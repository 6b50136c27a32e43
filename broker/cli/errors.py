"""How a failure ends the command: one plain message on standard error, and an exit code.

With ``--json`` the failure is also the last record on standard output, ``event: error``, so that a reader of the stream
sees it in its place.
"""

from __future__ import annotations

import errno
import signal
from typing import Any, NoReturn

import click

from broker.cli.output import write_json
from broker.errors import BrokerError, ConfigError, InvalidArgument

FAILED = 1
"""The operation failed."""

USAGE = 2
"""Wrong usage or configuration: trying again unchanged cannot help."""

INTERRUPTED = 128 + signal.SIGINT
"""Ctrl-C."""

_JSON = "broker.cli.json"


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

    def record(self) -> dict[str, Any]:
        """The failure as a JSON record."""
        return {"event": "error", "code": self.code, "reason": self.reason, "message": self.message, "violations": []}


class WrongConfiguration(Failure):
    """A failure that trying again unchanged cannot mend."""

    exit_code = USAGE


class BrokerFailure(Failure):
    """An error of the broker's own, which keeps its fields."""

    def __init__(self, error: BrokerError) -> None:
        super().__init__(error.message, code=error.code, reason=error.reason)
        self.error = error

    def format_message(self) -> str:
        """The message, a line for each field where there are several, and when to try again."""
        error = self.error
        lines = [f"{error.message} [{error.code} {error.reason}]"]
        if len(error.violations) > 1:
            lines = [f"{len(error.violations)} fields are wrong [{error.code} {error.reason}]"]
            lines += [f"  {violation.field}: {violation.message}" for violation in error.violations]
        if error.retry_after:
            lines.append(f"  trying again after {error.retry_after:g} s may help")
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """The error with its fields, and the seconds after which to try again."""
        violations = [
            {"field": violation.field, "reason": violation.reason, "message": violation.message}
            for violation in self.error.violations
        ]
        return {**super().record(), "violations": violations, "retry_after": self.error.retry_after}


class WrongRequest(BrokerFailure):
    """A request that breaks a rule of its own."""

    exit_code = USAGE


def remember_json(context: click.Context) -> None:
    """Notes that this run writes JSON, so that a failure is written as a record too."""
    context.find_root().meta[_JSON] = True


def end(context: click.Context, error: BaseException) -> NoReturn:
    """Turns what a command raised into what click ends with.

    Raises:
        click.ClickException: With the message and exit code of a failure.
        click.exceptions.Exit: With :data:`INTERRUPTED` after Ctrl-C.
    """
    if isinstance(error, KeyboardInterrupt | click.Abort):
        raise click.exceptions.Exit(INTERRUPTED) from None
    if isinstance(error, InvalidArgument):
        failure: click.ClickException = WrongRequest(error)
    elif isinstance(error, BrokerError):
        failure = BrokerFailure(error)
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


def _os_message(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def _usage_record(failure: click.ClickException) -> dict[str, Any]:
    message = failure.format_message()
    return {"event": "error", "code": "INVALID_ARGUMENT", "reason": "USAGE", "message": message, "violations": []}
