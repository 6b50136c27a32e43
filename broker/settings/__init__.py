"""What an operator can set, section by section, with every default and bound; :mod:`broker.config` reads it."""

from broker.settings.sections import PREFIX, Config, ConfiguredReranker, KnownProvider, Limits, Scale, Server

__all__ = ["PREFIX", "Config", "ConfiguredReranker", "KnownProvider", "Limits", "Scale", "Server"]
