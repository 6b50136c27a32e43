"""The providers that the broker knows: those configured and those that were ever attached, in lane order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from broker.core.scores import ScoreScale
from broker.errors import ConfigError, FailedPrecondition, ResourceExhausted


class KnownProvider(Struct, frozen=True, gc=False, kw_only=True):
    """One provider.

    Attributes:
        name: Its name.
        scale: As configured, or as last declared; None: neither.
        kinds: As last declared; empty: any, or never attached.
        last_seen: When an instance was last heard from before it left, in seconds since the epoch; None: none left yet.
        attached: Instances that can be asked.
    """

    name: str
    scale: ScoreScale | None
    kinds: tuple[str, ...]
    last_seen: float | None
    attached: int


class _Entry:
    __slots__ = ("attached", "fixed", "kinds", "last_seen", "scale")

    def __init__(self, scale: ScoreScale | None) -> None:
        self.fixed = scale
        self.scale = scale
        self.kinds: tuple[str, ...] = ()
        self.last_seen: float | None = None
        self.attached = 0


class Registry:
    """Known providers; beside the configured ones at most ``limit``, and those gone longest are forgotten first."""

    def __init__(
        self,
        configured: Mapping[str, ScoreScale | None] | None = None,
        *,
        shared: Iterable[tuple[str, Sequence[str]]] = (),
        limit: int = 10_000,
    ) -> None:
        """Starts with the configured providers, in the operator's order.

        Args:
            configured: Their scales, None where the operator sets none. They are never forgotten.
            shared: The id of a scale, and the configured providers that share it; each is in one list at most.
            limit: How many others are remembered, at least 1.
        """
        self._others = limit
        self._entries: dict[str, _Entry] = {}
        self._attached: set[str] = set()
        self._gone: dict[str, None] = {}
        self.configure(configured or {}, shared)

    def configure(
        self, configured: Mapping[str, ScoreScale | None], shared: Iterable[tuple[str, Sequence[str]]]
    ) -> None:
        """Knows other providers from the start; the arguments are those that it was made with.

        Those that are not configured any more are known as long as they are attached, or remembered as others are.
        :meth:`check_configured` says whether that can be.
        """
        self.lane_order: tuple[str, ...] = tuple(configured)
        """The configured providers, in the operator's order; what ``Policy.lane_order`` takes."""
        self._place = {name: place for place, name in enumerate(configured)}
        self._limit = self._others + len(configured)
        self._shared = {name: (scale_id, tuple(names)) for scale_id, names in shared for name in names}
        for name, entry in list(self._entries.items()):
            self._gone.pop(name, None)
            if name in configured:
                continue
            entry.fixed = None
            if entry.attached == 0 and entry.last_seen is None:
                del self._entries[name]
            elif entry.attached == 0:
                self._gone[name] = None
        for name, scale in configured.items():
            entry = self._entries.setdefault(name, _Entry(scale))
            entry.fixed = scale
            if scale is not None:
                entry.scale = scale

    def check_configured(
        self, configured: Mapping[str, ScoreScale | None], shared: Iterable[tuple[str, Sequence[str]]]
    ) -> None:
        """Refuses to know of a provider otherwise than it is attached.

        Raises:
            ConfigError: Naming it.
        """
        wanted = {name: scale.id for name, scale in configured.items() if scale is not None}
        wanted |= {name: scale_id for scale_id, names in shared for name in names}
        for name in sorted(self._attached & wanted.keys()):
            scale, entry = configured.get(name), self._entries[name]
            if entry.scale is None or (scale or entry.scale) != entry.scale or entry.scale.id != wanted[name]:
                raise ConfigError(
                    f"providers.{name}: it is attached with another scale than the one configured now; have it attach "
                    "with the new one after a restart, or detach it first"
                )

    def attach(self, provider: str, scale: ScoreScale, kinds: tuple[str, ...], *, replaces: bool) -> None:
        """Notes an instance that can be asked; with ``replaces`` it takes the place of one noted before.

        Raises:
            FailedPrecondition: ``SCALE_CONFLICT``: another instance, or the operator, declares another scale.
            ResourceExhausted: ``PROVIDERS_LIMIT``: too many providers are attached.
        """
        entry = self._entries.get(provider)
        self.check_scale(provider, scale, others=0 if entry is None else entry.attached - replaces)
        if entry is None:
            self._make_room()
            entry = self._entries[provider] = _Entry(None)
        self._gone.pop(provider, None)
        for sharer in self._sharers(provider):
            self._entries[sharer].scale = scale
        entry.kinds = kinds
        entry.attached += not replaces
        self._attached.add(provider)

    def detach(self, provider: str, last_seen: float) -> None:
        """Notes that an instance cannot be asked any more; ``last_seen`` is in seconds since the epoch."""
        entry = self._entries[provider]
        entry.attached -= 1
        entry.last_seen = last_seen
        if entry.attached == 0:
            self._attached.discard(provider)
            if provider not in self._place:
                self._gone[provider] = None

    def check_scale(self, provider: str, scale: ScoreScale, *, others: int | None = None) -> None:
        """Holds a declared scale against the provider's: the configured one, or that of the attached instances.

        Instances of providers that share a scale bind one another as those of one provider do.

        Args:
            provider: The provider.
            scale: What is declared now.
            others: Instances that bind it; None: all that are attached.

        Raises:
            FailedPrecondition: ``SCALE_CONFLICT``, naming both.
        """
        entry = self._entries.get(provider)
        if entry is None:
            return
        sharers = [name for name in self._sharers(provider) if name != provider]
        bound = entry.attached if others is None else others
        current = entry.fixed or (
            entry.scale if bound > 0 or any(self._entries[name].attached for name in sharers) else None
        )
        wanted = self._shared[provider][0] if sharers else scale.id
        if scale.id == wanted and current in (None, scale):
            return
        source = "the operator's configuration" if entry.fixed or current is None else "the attached instances"
        if sharers:
            source += f" (it shares its scale with {', '.join(sharers)})"
        raise FailedPrecondition(
            "SCALE_CONFLICT",
            f"provider {provider!r} declares scale {_shown(scale)}, but by {source} it is "
            f"{wanted if current is None else _shown(current)}; all of them must declare the same scale",
        )

    def known(self) -> tuple[KnownProvider, ...]:
        """All of them, in lane order."""
        return tuple(self._known(name) for name in self.in_lane_order(self._entries))

    def attached(self) -> frozenset[str]:
        """Names of those that have an instance that can be asked."""
        return frozenset(self._attached)

    def in_lane_order(self, names: Iterable[str]) -> list[str]:
        """Names, known or not: the configured ones in the operator's order, then the others by name."""
        ordered = sorted(names)
        if self._place:
            ordered.sort(key=lambda name: self._place.get(name, len(self._place)))
        return ordered

    def get(self, provider: str) -> KnownProvider | None:
        """One of them; None: not known."""
        return self._known(provider) if provider in self._entries else None

    def scales(self, beside: Mapping[str, ScoreScale | None] | None = None) -> Mapping[str, ScoreScale | None]:
        """Every known provider's scale, None where none is known: what floors are validated against.

        Args:
            beside: Other names, with their scales; of one that is known the registry's own counts.

        Returns:
            A view, as they are now: where thousands are known, a copy would cost a request more than all else.
        """
        return _Scales(self._entries, beside or {})

    def _sharers(self, provider: str) -> tuple[str, ...]:
        """The providers of one scale: this one, and those that share it."""
        return self._shared[provider][1] if provider in self._shared else (provider,)

    def _known(self, name: str) -> KnownProvider:
        entry = self._entries[name]
        return KnownProvider(
            name=name, scale=entry.scale, kinds=entry.kinds, last_seen=entry.last_seen, attached=entry.attached
        )

    def _make_room(self) -> None:
        if len(self._entries) < self._limit:
            return
        if not self._gone:
            raise ResourceExhausted(
                "PROVIDERS_LIMIT",
                f"{self._limit} providers are attached or configured, and no more are taken; detach some first",
                quota="providers",
                retry_after=30.0,
            )
        forgotten = next(iter(self._gone))
        del self._gone[forgotten], self._entries[forgotten]


class _Scales(Mapping[str, ScoreScale | None]):
    def __init__(self, entries: Mapping[str, _Entry], beside: Mapping[str, ScoreScale | None]) -> None:
        self._entries = entries
        self._beside = beside

    def __getitem__(self, name: str) -> ScoreScale | None:
        entry = self._entries.get(name)
        return self._beside[name] if entry is None else entry.scale

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from (name for name in self._beside if name not in self._entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _shown(scale: ScoreScale) -> str:
    return f"{scale.id} [{scale.min:g}, {scale.max:g}] {scale.direction.value}"
