"""The rerankers of a broker, and how one is asked: within its time, and never to the harm of the request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from broker.core.request import Rerank
from broker.core.rerank import RerankCandidate, Reranked
from broker.errors import ConfigError
from broker.rerankers.cross_encoder import CrossEncoder
from broker.rerankers.lexical import NAME as LEXICAL
from broker.rerankers.lexical import LexicalReranker
from broker.rerankers.plugin import PluginReranker, RerankerPlugin
from broker.rerankers.reranker import Reranker, RerankFailed
from broker.rpc.conduct import circuit_rules
from broker.rpc.guarded_reranker import GuardedReranker
from broker.rpc.remote_reranker import RemoteReranker
from broker.settings import Config, ConfiguredReranker

log = structlog.get_logger("broker.rpc")


@dataclass(frozen=True, slots=True)
class Timed:
    """A reranker and the time that it gets.

    Attributes:
        reranker: The reranker.
        seconds: For one request.
    """

    reranker: Reranker
    seconds: float


class Rerankers:
    """Every reranker that requests may name."""

    def __init__(self, rerankers: Mapping[str, Timed]) -> None:
        """Those in ``rerankers``, by name."""
        self._rerankers = dict(rerankers)

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self._rerankers)

    def seconds(self, name: str) -> float:
        """How long a reranker may take for one request."""
        return self._rerankers[name].seconds

    async def rerank(
        self, asked: Rerank, question: str, candidates: Sequence[RerankCandidate], deadline: float | None
    ) -> Reranked:
        """What a reranker makes of the candidates; where it fails or is late, why there are no scores. Never raises.

        Args:
            asked: Names one of :attr:`names`.
            question: As the providers were asked.
            candidates: Best first by the strategy; where there are none, it is not asked.
            deadline: Moment on the loop's clock when its answer is no longer of use; None: there is none.
        """
        timed = self._rerankers[asked.name]
        if not candidates:
            return Reranked((), timed.reranker.version)
        started = asyncio.get_running_loop().time()
        seconds = timed.seconds if deadline is None else min(timed.seconds, deadline - started)
        try:
            if seconds <= 0:
                raise RerankFailed("the call's deadline left it no time")  # noqa: TRY301 - one way out for all failures
            async with asyncio.timeout(seconds):
                reranked = await timed.reranker.score(question, candidates, seconds)
            if reranked.scores is None or len(reranked.scores) != len(candidates):
                count = 0 if reranked.scores is None else len(reranked.scores)
                raise RerankFailed(f"it gave {count} scores for {len(candidates)} candidates")  # noqa: TRY301
        except RerankFailed as error:
            why = str(error)
        except TimeoutError:
            limit = "its own time" if seconds == timed.seconds else "the call's deadline"
            why = f"it did not answer within {limit}"
        except Exception as error:  # noqa: BLE001 - a scorer fails, the request does not
            why = f"it failed with {type(error).__name__}"
        else:
            return reranked
        log.warning(
            "reranker failed; the order before stands",
            reranker=asked.name,
            why=why,
            candidates=len(candidates),
            ms=round((asyncio.get_running_loop().time() - started) * 1000, 1),
        )
        return Reranked(None, timed.reranker.version, why)

    async def close(self) -> None:
        """Lets go of what they hold."""
        for timed in self._rerankers.values():
            await timed.reranker.close()


def rerankers_of(config: Config, plugins: Mapping[str, RerankerPlugin] | None = None) -> Rerankers:
    """The built-in reranker, the configured ones and the operator's plugins.

    Args:
        config: For ``rerankers``, ``limits.rerank_seconds`` and ``conduct``.
        plugins: Those that the operator allowed, by name.

    Raises:
        ConfigError: One cannot be loaded, or two have one name.
    """
    seconds = config.limits.rerank_seconds
    found: dict[str, Timed] = {LEXICAL: Timed(LexicalReranker(), seconds)}
    for name, plugin in (plugins or {}).items():
        if name in found or name in config.rerankers:
            raise ConfigError(f"ranking.rerankers: {name!r} is the name of another reranker too; rename one of them")
        found[name] = Timed(PluginReranker(plugin), seconds)
    for name, configured in config.rerankers.items():
        try:
            allowed = configured.timeout_seconds or seconds
            reranker = _made(configured)
            if configured.kind == "remote":
                reranker = GuardedReranker(name, reranker, circuit_rules(config.conduct), allowed)
            found[name] = Timed(reranker, allowed)
        except ConfigError as error:
            raise ConfigError(f"rerankers.{name}: {error}") from None
    return Rerankers(found)


def _made(configured: ConfiguredReranker) -> Reranker:
    if configured.kind == "remote":
        return RemoteReranker(configured.address, None if configured.tls_ca is None else _bytes(configured.tls_ca))
    assert configured.directory is not None, "the settings see to it"
    return CrossEncoder(configured.directory, max_tokens=configured.max_tokens)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls_ca: {file}: {error.strerror or error}") from None
