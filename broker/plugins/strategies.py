"""Ranking policies of others: loaded by name, held against their protocol and against the gate."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence

import structlog

from broker.core.handles import Handle, RankingPlugin
from broker.core.plugins import param_violations, plugin_problem
from broker.core.strategies import PluginStrategy, Strategy
from broker.errors import ConfigError
from broker.gate.report import counterexample_lines
from broker.gate.run import run_gate
from broker.gate.subjects import Subject, plugged_in
from broker.plugins.loading import STRATEGIES, Loaded, load

log = structlog.get_logger("broker.plugins")


def allowed(names: Iterable[str], default: Strategy) -> dict[str, RankingPlugin]:
    """The plugins that the operator allows, each of which passed the gate.

    Args:
        names: As configured.
        default: The operator's default policy; a plugin passes the gate with its parameters too.

    Returns:
        By name.

    Raises:
        ConfigError: One is not installed, cannot be loaded, is no ranking policy or does not take the default's
            parameters; or the gate refuses it, and then the message shows the smallest evidence that it goes wrong on.
    """
    plugins: dict[str, RankingPlugin] = {}
    for name in names:
        loaded, plugin = load_strategy(name)
        params = default.params if isinstance(default, PluginStrategy) and default.name == name else {}
        problems = param_violations(plugin, params, "ranking.default_strategy")
        if problems:
            raise ConfigError("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
        verdict = run_gate(subject_of_plugin(loaded, params))
        if not verdict.passed:
            shown = "\n".join(line for example in verdict.counterexamples for line in counterexample_lines(example))
            raise ConfigError(
                f"ranking.plugins: the gate refuses the plugin {name!r} ({loaded.target} of {loaded.distribution}); "
                f"leave it out, or mend it and try: context-broker strategies check {name}\n{shown}"
            )
        # What may rank is named with the exact file that was checked, for whoever asks later what ran.
        log.info(
            "plugin allowed",
            plugin=name,
            version=plugin.version,
            target=loaded.target,
            distribution=loaded.distribution,
            digest=loaded.digest,
        )
        plugins[name] = _Told(plugin)
    return plugins


class _Told:
    """A plugin whose failures the operator is told in full; the core, which logs nothing, says only their type."""

    def __init__(self, plugin: RankingPlugin) -> None:
        self.name = plugin.name
        self.version = plugin.version
        self.description = plugin.description
        self.parameters = plugin.parameters
        self._plugin = plugin

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        try:
            return self._plugin.order(handles, params)
        except BaseException:  # a plugin may raise SystemExit too, and the core stands in for it
            # As text, and not as exc_info: a renderer might add local variables.
            log.warning("plugin failed", plugin=self.name, version=self.version, traceback=traceback.format_exc())
            raise


def load_strategy(name: str) -> tuple[Loaded, RankingPlugin]:
    """Loads one ranking policy without asking the gate.

    Raises:
        ConfigError: It is not installed, cannot be loaded, or is no ranking policy.
    """
    loaded = load(STRATEGIES, name)
    problem = plugin_problem(loaded.plugin, name)
    if problem is not None:
        raise ConfigError(
            f"the plugin {name!r} ({loaded.target} of {loaded.distribution}) is no ranking policy: {problem}"
        )
    plugin: RankingPlugin = loaded.plugin
    return loaded, plugin


def subject_of_plugin(loaded: Loaded, params: Mapping[str, object]) -> Subject:
    """A loaded ranking policy before the gate, with its defaults and with these parameters, if any."""
    return plugged_in(loaded.plugin, loaded.target, [params] if params else [])
