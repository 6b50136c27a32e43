"""Options that name where a configuration comes from."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config", "file", type=click.Path(path_type=Path), help="TOML file.  [env var: CONTEXT_BROKER_CONFIG]"
)
"""``--config``: the file; the command gets it as ``file``."""

secrets_option = click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of secret files, each named SECTION__KEY.  [env var: CONTEXT_BROKER_SECRETS]",
)
"""``--secrets``: the directory of secret files."""
