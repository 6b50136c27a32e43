"""``context-broker completion SHELL``: click's own completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from broker.cli.output import write_lines

_VARIABLE = "_CONTEXT_BROKER_COMPLETE"


EPILOG = """\
\b
bash:  eval "$(context-broker completion bash)"     in ~/.bashrc
zsh:   eval "$(context-broker completion zsh)"      in ~/.zshrc
fish:  context-broker completion fish > ~/.config/fish/completions/context-broker.fish
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "context-broker", _VARIABLE)
    # click asks bash for its version where it makes the script; the text itself does not depend on it.
    write_lines([(script.source_template % script.source_vars()).rstrip()])
