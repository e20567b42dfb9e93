# SPDX-License-Identifier: Apache-2.0
"""The command `locant`, as pip installs it."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from locant import _locant


@contextlib.contextmanager
def _plain_signals() -> Iterator[None]:
    """Ctrl-C and a closed pipe end the command at once, as they end any other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [signal.SIGINT, *([signal.SIGPIPE] if hasattr(signal, "SIGPIPE") else [])]
    before = {name: signal.signal(name, signal.SIG_DFL) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status. Where sys.stdout is no file (a notebook), its text goes there."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        status, answer, notes = _locant.command_text(given)
        sys.stdout.write(answer)
        sys.stderr.write(notes)
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    with _plain_signals():
        return _locant.run_command(given, out, err)


if __name__ == "__main__":
    sys.exit(main())
