"""Each option says one thing of a composition, and what was not said is left open."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from broker.cli.compositions_filter import REASONS, filter_options
from broker.core.audited import Reason


def given(*arguments: str):
    @click.command()
    @filter_options
    def told(wanted):
        click.echo(json.dumps(wanted))

    return CliRunner().invoke(told, arguments)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], {}),
        (["--provider", "a", "--frame", "b#1"], {"provider": "a", "frame_id": "b#1"}),
        (["--document", "docs/README.md"], {"document": "docs/README.md"}),
        (["--tenant", "blue"], {"tenant": "blue"}),
        (["--placed"], {"placed": True}),
        (["--excluded"], {"placed": False}),
        (["--excluded-for", "over_budget"], {"reason": "OVER_BUDGET"}),
        (["--excluded", "--excluded-for", "BELOW_FLOOR"], {"placed": False, "reason": "BELOW_FLOOR"}),
        (["--since", "1970-01-01", "--until", "1970-01-02"], {"made_from": 0.0, "made_before": 86_400.0}),
    ],
)
def test_what_is_said_and_nothing_else_is_wanted(arguments, wanted):
    done = given(*arguments)
    assert (done.exit_code, json.loads(done.stdout)) == (0, wanted)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--placed", "--excluded-for", "OVER_BUDGET"], "contradict each other"),
        (["--since", "1h", "--until", "1d"], "--since must be before --until"),
        (["--excluded-for", "OVERBUDGET"], "did you mean 'OVER_BUDGET'?"),
    ],
)
def test_what_no_composition_can_be_is_wrong_usage(arguments, words):
    done = given(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_every_reason_may_be_asked_for():
    assert {Reason.OVER_BUDGET, Reason.INVALID, Reason.PUSH_TRIMMED} < set(REASONS)
    assert all(reason.isupper() for reason in REASONS)
