"""The page of the configuration is what the settings say now, and the runbook knows every alert and real commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from broker.cli.config_page import config_page
from broker.cli.main import cli
from broker.core.audited import Reason
from broker.settings import Config
from tests.deploy.conftest import DEPLOY

RUNBOOK = (DEPLOY / "RUNBOOK.md").read_text()
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
COMMANDS = sorted(set(re.findall(r"context-broker ((?:[a-z-]+ ?)+[^`\n#|]*)", RUNBOOK)))


def test_the_page_of_the_configuration_is_current() -> None:
    told = "write it again: context-broker config docs > deploy/CONFIGURATION.md"
    assert (DEPLOY / "CONFIGURATION.md").read_text() == config_page(), told


@pytest.mark.parametrize("section", Config.model_fields)
def test_the_page_of_the_configuration_holds_every_section(section: str) -> None:
    assert re.search(rf"^## `\[{section}(\.NAME)?\]`$", config_page(), re.MULTILINE)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_an_entry_that_says_what_to_look_at_and_what_to_do(rule: dict) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "deploy/RUNBOOK.md"
    (entry,) = re.findall(rf"^### {rule['alert']}\n(.*?)(?=^##)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert anchor == rule["alert"].lower()
    assert "**Look:**" in entry
    assert "**Do:**" in entry or "](#" in entry


def test_every_link_within_leads_somewhere() -> None:
    headings = {heading.lower() for heading in re.findall(r"^#+ (\S+)$", RUNBOOK, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", RUNBOOK)) <= headings
    files = {
        link
        for page in ("RUNBOOK.md", "README.md")
        for link in re.findall(r"\]\(([^#)]+)\)", (DEPLOY / page).read_text())
    }
    assert {link for link in files if not (DEPLOY / link).exists()} == set()


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one_that_there_is(line: str) -> None:
    words = shlex.split(line.strip().rstrip(".,;:)"), comments=True)
    command: click.Command = cli
    context = click.Context(cli)
    while words and isinstance(command, click.Group) and (inner := command.get_command(context, words[0])):
        command, context = inner, click.Context(inner, parent=context, info_name=words.pop(0))
    assert command is not cli, line
    options = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_reasons_of_frames_are_the_contracts_own() -> None:
    table = RUNBOOK.partition("| the frame | then |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert named
    assert set(named) <= {value for name, value in vars(Reason).items() if name.isupper()}


def test_keys_of_the_configuration_are_real() -> None:
    named = set(re.findall(r"`(\w+)\.(\w+)(?: = \w+)?`", RUNBOOK))
    sections = {section for section, _ in named} & Config.model_fields.keys()
    assert {"limits", "store", "admin"} <= sections
    for section, key in named:
        if section in sections:
            assert key in Config.model_fields[section].annotation.model_fields, f"{section}.{key}"


def test_pages_are_no_wider_than_a_screen() -> None:
    def prose(path: Path) -> list[str]:
        return [line for line in path.read_text().splitlines() if not line.startswith("|")]

    assert [line for line in prose(DEPLOY / "RUNBOOK.md") if len(line) > 120] == []
