"""What can be configured of what the broker tells of itself: its HTTP port for operators, and its traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from broker.addresses import address_problem
from broker.settings.base import Count, Number, Section


class Admin(Section):
    """The HTTP port for whoever runs the broker: ``/metrics``, ``/healthz`` and ``/readyz``.

    Attributes:
        listen: ``host:port``; left out: there is none. It asks no one for a credential: whoever reaches it reads the
            names and figures of providers.
        providers: Providers that have figures of their own: the configured ones, then those that attach first. The rest
            share theirs.
    """

    listen: Annotated[str | None, Field(examples=["127.0.0.1:9464"])] = None
    providers: Annotated[Count, Field(le=10_000)] = 100

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and (problem := address_problem(value, any_port=True)):
            raise ValueError(problem)
        return value


class Traces(Section):
    """What an OpenTelemetry collector is told of every call, by OTLP over gRPC.

    Attributes:
        collector: ``host:port``; left out: none is told anything.
        tls_ca: PEM file of the certificates that its own must descend from; left out: plain text.
        headers_file: File of what it is to be shown with each batch, a line ``name: value`` each; not readable by all.
        sample: The part of the calls that is traced, 0 to 1, where the caller does not say itself.
    """

    collector: Annotated[str | None, Field(examples=["127.0.0.1:4317"])] = None
    tls_ca: Path | None = None
    headers_file: Path | None = None
    sample: Annotated[Number, Field(ge=0, le=1)] = 1.0

    @field_validator("collector")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and (problem := address_problem(value)):
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _of_a_collector(self) -> Self:
        for key in ("tls_ca", "headers_file"):
            if getattr(self, key) is not None and self.collector is None:
                raise ValueError(f"{key} goes with a collector, and none is named")
        return self
