"""The command line: `python -m rotary` is `roformer`."""

import signal
import sys

from . import _rotary


def main() -> int:
    """Runs the command that the program was called with. Returns its exit code."""
    # Python would note Ctrl-C and wait for the command to return: let it end the program, unless the command says otherwise.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _rotary.command(["roformer", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
