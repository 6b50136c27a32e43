"""Plugins: ranking policies and rerankers of others, found by Python entry points and allowed by the operator.

A distribution offers a ranking policy by an entry point of the group ``context_broker.strategies``, and a reranker by
one of ``context_broker.rerankers``::

    [project.entry-points."context_broker.strategies"]
    newest_first = "my_package.ranking:NewestFirst"

The entry point names a class, which is made without arguments, or an object. Nothing is loaded but what the operator's
configuration names (``ranking.plugins``, ``ranking.rerankers``), and never by what a request says. **A plugin is
trusted code: it runs inside the daemon with all that the daemon may do, and no sandbox is claimed.** The gate
(:mod:`broker.gate`) shows that a ranking policy keeps the rules on generated evidence; it does not hold back one that
means harm.

What the author of a ranking policy needs is here: :class:`RankingPlugin` says what to write, :class:`Handle` what a
frame looks like to it, :class:`Parameter` how to declare what it takes.
"""

from __future__ import annotations

from broker.core.handles import Handle, RankingPlugin
from broker.core.strategies import Parameter

__all__ = ["Handle", "Parameter", "RankingPlugin"]
