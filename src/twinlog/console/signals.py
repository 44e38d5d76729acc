"""SIGINT (Ctrl-C) and SIGTERM, from a command's first line to its last: they print a line and suppress stack traces.

Until a part runs that has to end in order, a signal ends the process at once. Afterwards a signal is a call on a thread
of its own: a handler interrupts the main thread at any point, and must avoid locks and logs. A signal that was ignored
when the process began stays ignored, as in Java: a shell that lacks job control starts `... &` with SIGINT ignored, and
SIGTERM ends the process then.

SIGHUP makes a program read its file again if the program can, even if the signal was ignored before (`nohup`). If the
terminal of the program is gone, SIGHUP ends the program as SIGTERM does.

This module imports only modules that Python has loaded at its own start: `signal` alone would take milliseconds, in
which Ctrl-C prints a stack trace.
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

INTERRUPTED = 4
"""The exit code of a command that a signal ended before its result; see `console.exit_codes`."""

_ENDING = {int(_signal.SIGINT): "SIGINT", int(_signal.SIGTERM): "SIGTERM"}
_HANGUP = int(_signal.SIGHUP)
_serves = False
_hangup_before: object = None
"""The action of SIGHUP when the process began, of a program that reads its file again; None for any other program."""
_hung_up = False
"""Whether SIGHUP came before the program could read its file again."""


def end_at_once(program: str, *, serves: bool, reloads: bool = False) -> None:
    """From now on a signal ends the process with a line.

    With `serves` the program runs until a signal ends it, so the code is 0. With `reloads` it may read its file again:
    a SIGHUP that comes too early for that is remembered.
    """
    global _serves, _hangup_before  # noqa: PLW0603 - signals are the process's own
    _serves = serves
    if reloads:
        _hangup_before = _signal.getsignal(_HANGUP)
        _signal.signal(_HANGUP, _remember)

    def end(number: int, frame: FrameType | None) -> None:
        # Another signal may come before this line, and then prints its own.
        _set(_nothing)
        os.write(2, f"{program}: TW-USE-03: ended by {_ENDING[number]}\n".encode())
        scratch = sys.modules.get("twinlog.process.scratch")
        if scratch is not None:
            scratch.remove_all()
        os._exit(exit_code())

    _set(end)


def exit_code() -> int:
    """The exit code of the process after a signal: 0 if that is its proper end, otherwise INTERRUPTED."""
    return 0 if _serves else INTERRUPTED


def call(stop: Callable[[signal.Signals], None], hang_up: Callable[[], None] | None = None) -> None:
    """From now on each signal is a call of `stop`, on a thread of its own, and SIGHUP is a call of `hang_up`.

    If `hang_up` is None, SIGHUP keeps its action from the begin of the process.
    """
    from signal import Signals  # noqa: PLC0415 - `end_at_once` comes first of all
    from threading import Thread  # noqa: PLC0415

    had_terminal = hang_up is not None and _hangup_before != _signal.SIG_IGN and _has_terminal()

    def hung_up() -> None:
        if had_terminal and not _has_terminal():
            stop(Signals.SIGHUP)
        elif hang_up is not None:
            hang_up()

    out, into = os.pipe()
    os.set_blocking(into, False)

    def listen() -> None:
        while numbers := os.read(out, 1):
            # Python writes the number of every signal that has a handler, including handlers of a user's class.
            if numbers[0] in _ENDING:
                stop(Signals(numbers[0]))
            elif numbers[0] == _HANGUP and hang_up is not None:
                hung_up()

    try:
        Thread(target=listen, name="signals", daemon=True).start()
    except RuntimeError:
        # As at this user's limit of threads: a stop at any point is better than a missing stop.
        _set(lambda number, frame: stop(Signals(number)))
        return
    _signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    _set(_nothing)
    _take_hangups(into, handled=hang_up is not None)


def _take_hangups(into: int, *, handled: bool) -> None:
    if handled:
        _signal.signal(_HANGUP, _nothing)
        if _hung_up:
            os.write(into, bytes([_HANGUP]))
    elif _hangup_before is not None:
        _signal.signal(_HANGUP, _hangup_before)
        if _hung_up:
            os.kill(os.getpid(), _HANGUP)


def _has_terminal() -> bool:
    """Whether this process has a terminal that can still be opened; after a hang-up opening the terminal fails
    (tty_ioctl)."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _set(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in _ENDING:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler)


def _remember(number: int, frame: FrameType | None) -> None:
    global _hung_up  # noqa: PLW0603
    _hung_up = True


def _nothing(number: int, frame: FrameType | None) -> None:
    """The number has already gone down the pipe, or the process ends already."""
