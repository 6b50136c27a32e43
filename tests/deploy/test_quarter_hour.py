"""The script that shows all of it runs from nothing to the end, and shows what it promises."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.conftest import DEPLOY
from tests.store.postgres import binaries


@pytest.mark.soak
def test_the_quarter_hour(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    done = subprocess.run(
        [DEPLOY / "quarter-hour.sh", tmp_path / "all"], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in (
        "SERVING",
        "UNAUTHENTICATED CREDENTIALS",
        "Compose",
        '"audit": "RECORDED"',
        "context_broker_compositions_total",
        "the configuration was read again",
        "MAX_TOKENS",
        "exit code 0",
    ):
        assert shown in done.stdout + done.stderr, shown
