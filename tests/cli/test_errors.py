"""A failure ends a command with one plain message, its fields and an exit code, and carries nothing to the terminal."""

from __future__ import annotations

import click
import pytest

from broker.cli.errors import FAILED, INTERRUPTED, USAGE, BrokerFailure, end, remember_json
from broker.errors import (
    BrokerError,
    ConfigError,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)

FIELDS = [FieldViolation("floors[0]", "FLOOR_RANGE", "too low"), FieldViolation("goal", "GOAL", "say one")]


def ended(error: BaseException, *, as_json: bool = False) -> click.ClickException:
    context = click.Context(click.Command("x"))
    if as_json:
        remember_json(context)
    with pytest.raises(click.ClickException) as caught:
        end(context, error)
    return caught.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgument("GOAL", "say one"), USAGE),
        (PermissionDenied("STRATEGY_FORBIDDEN", "name another"), USAGE),
        (PermissionDenied("METHOD", "use another credential"), USAGE),
        (Unauthenticated("CREDENTIALS", "show one"), USAGE),
        (Unavailable("TLS", "give tls_ca"), USAGE),
        (ConfigError("limits.max_tokens: too low"), USAGE),
        (click.UsageError("no such option"), USAGE),
        (Unavailable("NO_PROVIDERS", "attach one"), FAILED),
        (OSError(2, "no such file", "x"), FAILED),
    ],
)
def test_what_trying_again_cannot_mend_has_another_exit_code(error: Exception, code: int):
    assert ended(error).exit_code == code


def test_ctrl_c_has_the_shells_exit_code():
    with pytest.raises(click.exceptions.Exit) as caught:
        end(click.Context(click.Command("x")), KeyboardInterrupt())
    assert caught.value.exit_code == INTERRUPTED


def test_a_fault_is_not_dressed_up():
    with pytest.raises(ZeroDivisionError):
        end(click.Context(click.Command("x")), ZeroDivisionError())


def test_an_error_is_told_with_its_reason_each_field_and_when_to_come_back():
    assert BrokerFailure(Unavailable("NO_PROVIDERS", "attach one", retry_after=1.5)).format_message() == (
        "attach one [UNAVAILABLE NO_PROVIDERS]\n  trying again after 1.5 s may help"
    )
    assert BrokerFailure(InvalidArgument.of(FIELDS)).format_message() == (
        "2 fields are wrong [INVALID_ARGUMENT FLOOR_RANGE]\n  floors[0]: too low\n  goal: say one"
    )


def test_a_limit_that_was_reached_is_named_once():
    unnamed = ResourceExhausted("PUSH_FRAMES", "it holds more", quota="limits.lane_frames")
    assert BrokerFailure(unnamed).format_message().splitlines()[1:] == ["  the limit is limits.lane_frames"]
    assert BrokerFailure(unnamed).record()["quota"] == "limits.lane_frames"
    named = ResourceExhausted("CALL_RATE", "more than 5 (limits.calls)", quota="limits.calls", retry_after=1.0)
    assert BrokerFailure(named).format_message().count("limits.calls") == 1


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("ALL_LANES_FAILED", "no provider answered: a: FAILED (\x1b]0;mine\x07\u202e)"),
        FailedPrecondition(
            "REQUIRED_PROVIDER",
            "x",
            violations=[FieldViolation(f"required_providers[{i}]", "R", "a: FAILED (\x1b[2J)") for i in range(2)],
        ),
    ],
)
def test_words_of_a_provider_do_nothing_to_the_terminal(error: BrokerError):
    told = BrokerFailure(error).format_message()
    assert all(line.isprintable() for line in told.splitlines())
    assert "⟦U+001B⟧" in told


def test_under_json_the_failure_is_the_last_record_too(capsys: pytest.CaptureFixture[str]):
    ended(InvalidArgument.of(FIELDS), as_json=True)
    out = capsys.readouterr().out
    assert '"event": "error"' in out
    assert '"field": "floors[0]"' in out


def test_fields_are_told_as_they_were_typed_and_kept_as_they_are():
    def name(field: str) -> str:
        return {"floors[0]": "--floor fqa:unit=1", "goal": "GOAL"}[field]

    failure = BrokerFailure(InvalidArgument.of(FIELDS), name)
    assert failure.format_message().splitlines()[1:] == ["  --floor fqa:unit=1: too low", "  GOAL: say one"]
    assert [(each["field"], each["option"]) for each in failure.record()["violations"]] == [
        ("floors[0]", "--floor fqa:unit=1"),
        ("goal", "GOAL"),
    ]
    assert BrokerFailure(InvalidArgument.of(FIELDS[1:]), name).format_message() == (
        "GOAL: say one [INVALID_ARGUMENT GOAL]"
    )


def test_an_error_that_says_more_than_its_one_field_is_told_in_its_own_words():
    field = FieldViolation("required_providers[0]", "REQUIRED_PROVIDER", "a: ABSENT")
    error = FailedPrecondition("REQUIRED_PROVIDER", "required providers did not answer: a: ABSENT", violations=[field])
    assert BrokerFailure(error, lambda _: "--require a").format_message().startswith(error.message)


def test_a_command_is_named_where_a_broker_names_a_method():
    told = BrokerFailure(InvalidArgument("X", "no such one; see ListProviders")).format_message()
    assert "see `context-broker providers`" in told
