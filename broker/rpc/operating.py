"""What operators see of a running broker besides its log: measurements, the HTTP port, and spans handed over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from broker.rpc.observing import Observing
from broker.settings import Admin
from broker.telemetry.admin import AdminServer
from broker.telemetry.lag import LoopLag

MEASURED_EVERY = 0.1
"""Seconds between two measurements; one takes some 50 µs."""

STUCK_SECONDS = 15.0
"""After which an event loop that does not turn is given up. Nothing that it does takes a tenth of a second."""

log = structlog.get_logger("broker.rpc")


class Operating:
    """Shows a broker to its operators, from before it serves until after it has drained.

    Attributes:
        address: ``host:port`` of the HTTP port once open; empty: there is none.
    """

    def __init__(
        self,
        admin: Admin,
        observing: Observing,
        *,
        figures: Callable[[], Mapping[str, float]],
        ready: Callable[[], str],
    ) -> None:
        """Opens nothing yet.

        Args:
            admin: Where the HTTP port is.
            observing: What is shown.
            figures: What can be measured now, by the names of :data:`broker.telemetry.metrics.GAUGES`.
            ready: Why no new requests are taken; empty: they are.
        """
        self._observing = observing
        self._figures = figures
        self._turned = time.monotonic()
        self._lag = LoopLag(observing.metrics.lagged)
        self._measuring: asyncio.Task[None] | None = None
        self._server: AdminServer | None = None
        if admin.listen is not None:
            registry = observing.metrics.registry
            self._server = AdminServer(admin.listen, registry, alive=self._stuck, ready=ready)

    @property
    def address(self) -> str:  # noqa: D102 - see the class
        return "" if self._server is None else self._server.address

    def open(self) -> None:
        """Opens the HTTP port and begins to measure; nothing where there is none.

        Raises:
            OSError: It cannot be bound; ``EADDRINUSE`` where it is taken.
        """
        if self._server is not None:
            self._server.open()
            self._turned = time.monotonic()
            self._lag.start()
            self._measuring = asyncio.create_task(self._measure(), name="broker-measure")

    async def close(self) -> None:
        """Hands over what was not exported yet, and closes the port."""
        await self._observing.tracing.close()
        self._lag.stop()
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring])
        if self._server is not None:
            await asyncio.to_thread(self._server.close)

    def _stuck(self) -> str:
        seconds = time.monotonic() - self._turned
        return f"the event loop has not turned for {seconds:.0f} s" if seconds > STUCK_SECONDS else ""

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURED_EVERY)
            self._turned = time.monotonic()
            try:
                self._observing.metrics.set({**self._figures(), "event_loop_lag_max_seconds": self._lag.worst})
            except Exception as fault:  # noqa: BLE001 - a broker that cannot be measured once still works
                log.error("the broker could not be measured", kind=type(fault).__name__)  # noqa: TRY400
