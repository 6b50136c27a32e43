"""The daemon as a process of its own: its log, its signals, its loop, and who watches over it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable

import structlog

from broker.config import Config
from broker.errors import ConfigError
from broker.limits import garbage
from broker.rpc import supervisor
from broker.rpc.server import Broker
from broker.telemetry import logs
from broker.telemetry.repeats import Repeats

log = structlog.get_logger("broker.rpc")

SWITCH_SECONDS = 0.001
"""How long one thread has the interpreter while another waits. The event loop waits for it after every call into the
system while a large composition is made: at Python's own 5 ms, tens of milliseconds in a row."""

Reread = Callable[[], Config]
"""Reads the configuration again; raises ConfigError where it cannot be used."""


async def serve(config: Config, *, on_ready: Callable[[str], None] | None = None, reread: Reread | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once.

    SIGHUP has the configuration read again: what can change while the broker runs is taken, all of it or nothing.

    This is for a process of the daemon's own: it sets up the process's log and its signals. :class:`Broker` does
    neither.

    Args:
        config: The configuration.
        on_ready: Called with the address once calls are taken.
        reread: Reads the configuration again for SIGHUP; None: only the files that say who may call are read again.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: A secret or a certificate cannot be used.
        OSError: The address cannot be bound; ``EADDRINUSE`` where it is taken.
    """
    repeats = Repeats(config.log.repeats)
    logs.configure(config.log.level, config.log.format, repeats=repeats)
    broker = Broker(config)
    loop = asyncio.get_running_loop()
    stopping, again = asyncio.Event(), asyncio.Event()

    def on_signal(number: int) -> None:
        if stopping.is_set():
            # Whoever asks twice does not want to wait for anything, not for a thread that composes either.
            os._exit(128 + number)
        log.info("stopping", signal=signal.Signals(number).name, grace_seconds=config.server.grace_seconds)
        stopping.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    async with repeats.told():
        reloading = None
        try:
            address = await broker.start()
            garbage.settle()
            reloading = asyncio.create_task(_reload(broker, reread, again), name="broker-reload")
            if on_ready is not None:
                on_ready(address)
            supervisor.tell(supervisor.READY)
            await stopping.wait()
        finally:
            supervisor.tell(supervisor.STOPPING)
            if reloading is not None:
                reloading.cancel()
                await asyncio.wait([reloading])
            await broker.stop()
            for number in (*signals, signal.SIGHUP):
                loop.remove_signal_handler(number)
    return 0


async def _reload(broker: Broker, reread: Reread | None, again: asyncio.Event) -> None:
    """Reads the configuration again whenever it is asked to; a configuration that cannot be used changes nothing."""
    while True:
        await again.wait()
        again.clear()
        supervisor.tell(supervisor.reloading())
        try:
            config = broker.config if reread is None else await asyncio.to_thread(reread)
            keys = await broker.reload(config)
        except ConfigError as wrong:
            log.error("the configuration was read again and cannot be taken; the old stays", problem=str(wrong))  # noqa: TRY400
        except Exception as fault:  # noqa: BLE001 - the next signal must find someone who listens
            log.error("the configuration could not be read again; the old stays", kind=type(fault).__name__)  # noqa: TRY400
        else:
            logs.set_level(config.log.level)
            log.info("the configuration was read again", changed=keys)
        supervisor.tell(supervisor.READY)


def run(config: Config, *, on_ready: Callable[[str], None] | None = None, reread: Reread | None = None) -> int:
    """:func:`serve`, with its arguments, answer and errors, on a loop of its own: uvloop's where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    else:
        factory = new_event_loop
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=factory) as runner:
        code = runner.run(serve(config, on_ready=on_ready, reread=reread))
    # The process ends now. Without this the interpreter looks for circles in all that was loaded, which takes longer
    # than all else that a stop does.
    gc.freeze()
    return code
