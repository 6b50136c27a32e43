"""From what a call presents to who calls: the policy's parts, then the principals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.auth.caller import Caller, anonymous
from broker.auth.files import WatchedFile
from broker.auth.parts import Identified, Kind, Part, Presented, Refused
from broker.auth.principals import Principal
from broker.errors import ConfigError

_NONE: frozenset[str] = frozenset()
"""Made once: each is an object of its own, and every call would keep one."""


class Authenticator:
    """Knows callers.

    Attributes:
        kinds: The kinds of credential that it takes; empty: it asks for none.
    """

    def __init__(
        self,
        part: Part,
        principals: WatchedFile[Mapping[str, Principal]] | None,
        files: Sequence[WatchedFile[Any]],
        *,
        kinds: frozenset[Kind],
        anonymous_operates: bool,
        required: Mapping[str, frozenset[Kind]] | None = None,
    ) -> None:
        """Knows callers by a policy.

        Args:
            part: The policy.
            principals: Who its subjects are; None: it knows anonymous ones alone.
            files: All files that its answers come from, to be read again when they change.
            kinds: The kinds of credential in the policy.
            anonymous_operates: Whether an anonymous caller may act as operator.
            required: Kinds of credential that must all have named whoever speaks for a provider, by its name.
        """
        self.kinds = kinds
        self._part = part
        self._principals = principals
        self._files = files
        self._anonymous_operates = anonymous_operates
        self._required = required or {}

    def caller(self, presented: Presented, now: float) -> tuple[Caller, float | None]:
        """Who calls, and until when that holds, in seconds since the epoch; None: as long as it is not revoked.

        Args:
            presented: What the call brought.
            now: Seconds since the epoch.

        Raises:
            Refused: No one that may call; the text is for the log alone.
        """
        identified = self._part.identify(presented, now)
        return self._principal(identified, presented.connection), identified.expires

    def tenants(self) -> frozenset[str]:
        """Names of the tenants that there are: those that principals have."""
        principals = {} if self._principals is None else self._principals.value
        return frozenset(each.tenant for each in principals.values() if each.tenant)

    def refresh(self) -> tuple[bool, list[str]]:
        """Reads again the files that have changed; blocking.

        Returns:
            Whether anything is judged otherwise from now on, and what is wrong with files that cannot be used.
        """
        changed, problems = False, []
        for file in self._files:
            try:
                changed |= file.poll()
            except ConfigError as wrong:
                problems.append(str(wrong))
        return changed, problems

    def _principal(self, identified: Identified, connection: str) -> Caller:
        refused = _NONE
        if self._required:
            refused = frozenset(name for name, kinds in self._required.items() if not kinds <= identified.by)
        if not identified.by:
            return anonymous(connection, operates=self._anonymous_operates, refused=refused)
        found = None if self._principals is None else self._principals.value.get(identified.subject)
        if found is None:
            raise Refused("the subject has no principal")
        if not identified.by <= found.by:
            raise Refused("the subject's principal does not allow this kind of credential")
        return Caller(found.tenant, found.subject, frozenset({found.role}), found.providers - refused, connection)
