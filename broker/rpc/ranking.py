"""Ranking lanes in the daemon, where a policy that an operator installed may take longer than anyone waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NoReturn

import structlog
from msgspec.structs import replace

from broker.core.handles import Handle
from broker.core.lanes import Lane
from broker.core.plan import Plan, rank_lanes
from broker.core.request import CompositionRequest, Policy
from broker.core.strategies import Parameter, PluginStrategy
from broker.rerankers.reranker import RerankFailed
from broker.rerankers.threads import Threads

LIMIT = 4
"""Requests that one plugin ranks at once."""

log = structlog.get_logger("broker.rpc")


class PluginRanker:
    """Ranks under plugins, each in threads of its own: one that hangs takes no worker from anyone else.

    Args:
        policy: With the plugins that the operator allows.
        seconds: What one may take for a request.
    """

    def __init__(self, policy: Policy, seconds: float) -> None:
        self._policy = policy
        self._seconds = seconds
        self._threads = {name: Threads(f"rank-{name}", LIMIT) for name in policy.plugins}

    async def rank(
        self, strategy: PluginStrategy, lanes: Sequence[Lane], request: CompositionRequest, deadline: float | None
    ) -> Plan:
        """The plan under a plugin; under round robin, with the repair that says so, where it does not answer in time.

        Args:
            strategy: The request's.
            lanes: See :func:`~broker.core.plan.rank_lanes`.
            request: See there.
            deadline: Moment on the loop's clock when the caller gives up; None: never. Half of the time until then is
                the most that a plugin gets.
        """
        name = strategy.name
        seconds = self._seconds
        if deadline is not None:
            seconds = min(seconds, max(0.0, deadline - asyncio.get_running_loop().time()) / 2)
        try:
            async with asyncio.timeout(seconds):
                return await self._threads[name].run(lambda: rank_lanes(lanes, request, self._policy))
        except TimeoutError:
            log.warning("plugin is late; round robin stands in", plugin=name, seconds=round(seconds, 3))
        except RerankFailed as error:
            log.warning("plugin could not be asked; round robin stands in", plugin=name, why=str(error))
        plan = await asyncio.to_thread(rank_lanes, lanes, request, replace(self._policy, plugins={name: _Late()}))
        # The audit names the plugin that was asked.
        return replace(plan, policy=self._policy)


class _Late:
    """Stands where a plugin did not answer in time, so that the core says what it says of every one that fails."""

    name, version, description = "late", "1", "Does not answer."
    parameters: tuple[Parameter, ...] = ()

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> NoReturn:  # noqa: ARG002
        raise TimeoutError
