"""Processes below one that was started. They end while somebody looks at them, which is no fault of who looks."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended, be its parent told of that or not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def below(pid: int) -> list[psutil.Process]:
    """What a process has started, and those have, as far as it still runs; a zombie does not."""
    with suppress(psutil.NoSuchProcess):
        return [one for one in psutil.Process(pid).children(recursive=True) if runs(one)]
    return []


def named(name: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run the program of this name now."""
    found = []
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            found += [one] if runs(one) and one.name() == name else []
    return found


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    """A signal for each that has not ended."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)
