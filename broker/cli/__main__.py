"""``python -m broker.cli``: the same as ``context-broker``."""

from broker.cli.main import main

if __name__ == "__main__":
    main()
