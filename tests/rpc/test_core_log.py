"""grpc's own log shows no metadata and blames no broker for peers that left, and goes on saying everything else."""

from __future__ import annotations

import logging

import pytest

from broker.rpc.core_log import hold_lines_back


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Invalid encoding on %s", b"Bearer secret\xff"),
        ("ExecuteBatchError raised in core by servicer method [%s]", "/contextbroker.v1.ContextService/Compose"),
    ],
)
@pytest.mark.parametrize("formatted", [False, True])
def test_lines_that_must_not_be_written_are_held_back_and_others_are_not(
    caplog: pytest.LogCaptureFixture, line: str, value: object, formatted: bool
) -> None:
    hold_lines_back()
    hold_lines_back()
    log = logging.getLogger("grpc._cython.cygrpc")
    if formatted:
        log.error(line % value)
    else:
        log.error(line, value)
    log.error("something else")
    assert [record.message for record in caplog.records] == ["something else"]
    assert len([each for each in log.filters if type(each).__name__ == "_HoldsBack"]) == 1
