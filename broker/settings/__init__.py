"""What an operator can set, section by section, with every default and bound; :mod:`broker.config` reads it."""

from broker.settings.auth import Auth
from broker.settings.conduct import Conduct
from broker.settings.limits import Limits
from broker.settings.sections import PREFIX, Config, ConfiguredReranker, KnownProvider, Scale, Server
from broker.settings.store import Keeping
from broker.settings.telemetry import Admin, Traces
from broker.settings.tokenizers import ConfiguredTokenizer

__all__ = [
    "PREFIX",
    "Admin",
    "Auth",
    "Conduct",
    "Config",
    "ConfiguredReranker",
    "ConfiguredTokenizer",
    "Keeping",
    "KnownProvider",
    "Limits",
    "Scale",
    "Server",
    "Traces",
]
