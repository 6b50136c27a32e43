"""Prometheus takes the alerts, and each of them is raised for what it is about and for nothing beside it."""

from __future__ import annotations

import yaml

from tests.deploy.conftest import DEPLOY, Run

FOLDER = DEPLOY / "prometheus"


def test_the_rules_are_rules(tool: Run) -> None:
    done = tool("promtool", "check", "rules", str(FOLDER / "alerts.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_raised_where_it_should_be(tool: Run) -> None:
    done = tool("promtool", "test", "rules", str(FOLDER / "alerts_test.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test() -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    raised = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert raised == {rule["alert"] for group in rules for rule in group["rules"]}
