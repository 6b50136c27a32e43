"""The image passes its linter, runs without rights, and holds what it says."""

from __future__ import annotations

import re
import tomllib

from tests.deploy.conftest import DEPLOY, ROOT, Run

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def test_the_linter_finds_nothing(tool: Run) -> None:
    done = tool("hadolint", str(DEPLOY / "Dockerfile"))
    assert (done.returncode, done.stdout) == (0, "")


def test_it_runs_as_a_user_without_rights() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last


def test_its_extras_and_files_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[(.+?)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    copied = [
        part for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for part in line.split()[:-1]
    ]
    assert sorted(allowed) == sorted(copied)
    assert all((ROOT / path).exists() for path in copied)


def test_its_health_check_is_a_command_that_there_is(broker_command: Run) -> None:
    (check,) = re.findall(r"HEALTHCHECK .*CMD \[(.+)\]", DOCKERFILE)
    _, *arguments = [part.strip(' "') for part in check.split(",")]
    assert "--admin" in arguments
    assert broker_command(*arguments[:1], "--help").returncode == 0
