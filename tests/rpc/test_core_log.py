"""grpc's own log shows no metadata, and goes on saying everything else."""

from __future__ import annotations

import logging

import pytest

from broker.rpc.core_log import keep_metadata_out


def test_lines_that_show_metadata_are_held_back_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    keep_metadata_out()
    keep_metadata_out()
    log = logging.getLogger("grpc._cython.cygrpc")
    log.error("Invalid encoding on %s", b"Bearer secret\xff")
    log.error("something else")
    assert [record.message for record in caplog.records] == ["something else"]
    assert len([each for each in log.filters if type(each).__name__ == "_WithoutMetadata"]) == 1
