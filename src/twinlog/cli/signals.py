"""SIGINT (Ctrl-C) and SIGTERM, from a command's first line to its last: one line, and no stack trace.

Until something runs that has to end in order, a signal ends the process at once. Afterwards it is a call on a thread of
its own: a handler interrupts whatever the main thread does, and must neither wait for a lock nor write to a log.
A signal that was ignored when the process began stays so, as in Java: a shell without job control starts `... &` with
SIGINT ignored, and SIGTERM ends the process then.

Nothing is imported here that Python has not loaded at its own start: `signal` alone would take milliseconds, in which
Ctrl-C prints a stack trace.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType

_ENDING = {int(_signal.SIGINT): "SIGINT", int(_signal.SIGTERM): "SIGTERM"}
_serves = False


def end_at_once(program: str, *, serves: bool) -> None:
    """From now on a signal ends the process with one line.

    With `serves` the program runs until a signal ends it, so the code is 0.
    """
    global _serves  # noqa: PLW0603 - signals are the process's own
    _serves = serves

    def end(number: int, frame: FrameType | None) -> None:
        # Another signal may come before this line, and then prints its own.
        _set(_nothing)
        os.write(2, f"{program}: ended by {_ENDING[number]}\n".encode())
        scratch = sys.modules.get("twinlog.scratch")
        if scratch is not None:
            scratch.remove_all()
        os._exit(exit_code(number))

    _set(end)


def exit_code(number: int) -> int:
    """What the process ends with after a signal: 0 if that is its proper end, otherwise 128 and the signal's number."""
    return 0 if _serves else 128 + number


def call(stop: Callable[[signal.Signals], None]) -> None:
    """From now on each signal is a call of `stop`, on a thread of its own."""
    from signal import Signals  # noqa: PLC0415 - `end_at_once` comes first of all
    from threading import Thread  # noqa: PLC0415

    out, into = os.pipe()
    os.set_blocking(into, False)

    def listen() -> None:
        while numbers := os.read(out, 1):
            # Python writes the number of every signal that has a handler, those of a user's class, too.
            if numbers[0] in _ENDING:
                stop(Signals(numbers[0]))

    try:
        Thread(target=listen, name="signals", daemon=True).start()
    except RuntimeError:
        # As when this user may have no more threads: better in the middle of anything than never.
        _set(lambda number, frame: stop(Signals(number)))
        return
    _signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    _set(_nothing)


def _set(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in _ENDING:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Nothing is done here: the number has gone down the pipe, or the process ends already."""
