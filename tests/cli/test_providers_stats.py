"""The table of how providers fared counts each end, and says nothing of what was never cited."""

from __future__ import annotations

from msgspec.structs import replace

from broker.cli.output import Style
from broker.cli.providers_stats import statistics_lines
from broker.cli.text import width
from broker.core.records import ProviderStatistics


def test_each_figure_stands_in_its_column():
    found = [
        ProviderStatistics(
            provider="files",
            asked=1000,
            answered=990,
            late=4,
            failed=3,
            lied=2,
            not_asked=1,
            offered=12_000,
            placed=900,
            tokens_placed=45_000,
            cited=90,
        ),
        ProviderStatistics(provider="n" * 63, asked=1),
    ]
    heading, first, second = statistics_lines(found, Style())
    titles = [
        "provider",
        "asked",
        "answered",
        "late",
        "failed",
        "lied",
        "away",
        "offered",
        "placed",
        "cited",
        "tok/cite",
    ]
    assert heading.split() == titles
    assert first.split() == ["files", "1,000", "990", "4", "3", "2", "1", "12,000", "900", "90", "500"]
    assert second.split()[1:] == ["1", "0", "0", "0", "0", "0", "0", "0", "0"]
    assert all(width(line) <= 100 for line in (heading, first, second))
    small = [replace(found[0], offered=900)]
    assert all(width(line) <= 80 for line in statistics_lines(small, Style(width=80)))
    assert "away" not in statistics_lines(small, Style(width=80))[0]
    assert statistics_lines([], Style()) == []


def test_a_time_in_which_nothing_was_made_is_said(run_command, broker_address):
    done = run_command("providers", "stats", "--until", "1970-01-02", "--address", broker_address)
    assert (done.returncode, done.stdout.startswith(b"the broker at")) == (0, True)
    assert (
        run_command("providers", "stats", "--until", "1970-01-02", "--address", broker_address, "--json").stdout == b""
    )
    done = run_command("providers", "stats", "--since", "1h", "--until", "2h")
    assert (done.returncode, b"--since must be before --until" in done.stderr) == (2, True)
