"""context-broker: evidence from many providers, ranked without comparing their scores, placed in an agent's prompt."""

__version__ = "0.1.0"
