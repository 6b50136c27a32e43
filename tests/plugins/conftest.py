"""Fixtures of the suites about plugins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.installing import installed


@pytest.fixture
def distribution(tmp_path: Path) -> Iterator[Path]:
    """The example distribution, installed."""
    with installed(tmp_path) as folder:
        yield folder
