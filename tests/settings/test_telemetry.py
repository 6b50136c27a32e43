"""What the broker tells of itself is off unless it is asked for, and said whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config import load
from broker.errors import ConfigError


def test_nothing_listens_and_nothing_is_sent_unless_it_is_said() -> None:
    config = load()
    assert config.admin.listen is None
    assert config.traces.collector is None


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"admin": {"listen": "9464"}}, "admin.listen: expected host:port"),
        ({"admin": {"listen": "127.0.0.1:65536"}}, "65536"),
        ({"admin": {"providers": 0}}, "admin.providers"),
        ({"admin": {"providers": 10_001}}, "admin.providers"),
        ({"traces": {"collector": "http://collector:4317"}}, "traces.collector: expected host:port"),
        ({"traces": {"collector": "collector:0"}}, "traces.collector"),
        ({"traces": {"collector": "c:1", "sample": 1.5}}, "traces.sample"),
        ({"traces": {"collector": "c:1", "sample": True}}, "traces.sample: expected a number"),
        ({"traces": {"collector": "c:1", "sample": float("nan")}}, "traces.sample"),
        ({"traces": {"tls_ca": "ca.pem"}}, "tls_ca goes with a collector"),
        ({"traces": {"headers_file": "headers"}}, "headers_file goes with a collector"),
        ({"traces": {"colector": "c:1"}}, "the nearest is 'traces.collector'"),
    ],
)
def test_what_cannot_be_used_is_refused(sections: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(sections)
    assert told in str(error.value)


def test_a_port_that_others_reach_is_the_operator_s_to_choose() -> None:
    config = load({"admin": {"listen": "0.0.0.0:0"}, "traces": {"collector": "collector.monitoring:4317"}})
    assert config.admin.listen == "0.0.0.0:0"
    assert config.traces.sample == 1.0
