"""Reading the daemon's configuration, holding it against what runs, and naming what is wrong with it."""

from broker.config.reading import CONFIG_VARIABLE, SECRETS_VARIABLE, Read, load, read
from broker.settings import Config

__all__ = ["CONFIG_VARIABLE", "SECRETS_VARIABLE", "Config", "Read", "load", "read"]
