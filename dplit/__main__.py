"""`python -m dplit [command]`: cluster a table, look into a ledger, or take the tour."""

import sys

from dplit import __version__
from dplit.command_line import parse


def main(argv=None):
    """Run a command and return what `sys.exit` takes; what is loaded depends on it, and help needs nothing."""
    options = parse(argv, __version__)
    from dplit.command_line.tour import run

    return run(options)


if __name__ == "__main__":
    code = main()
    import signal

    from dplit.inputs.console import SIGNALS

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the return code is known: nothing is left to stop
    sys.exit(code)
