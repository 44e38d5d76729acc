"""Prints the waits of a command on stderr once they take long: a waiting command looks like a hanging command."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import typer

from twinlog.clock import SYSTEM

LONG_S = 2.0
AGAIN_S = 5.0


class WaitingReader(Protocol):
    """Something that reads from clusters on another thread."""

    def waits(self) -> list[str]:
        """Its present waits, in words."""


@contextmanager
def waits_reported(
    readers: Sequence[WaitingReader], *, long_s: float = LONG_S, again_s: float = AGAIN_S
) -> Iterator[None]:
    """Print the waits of the readers after `long_s` seconds, and then every `again_s`."""
    over = threading.Event()

    def report() -> None:
        wait_s = long_s
        while not SYSTEM.wait(over, wait_s):
            for text in dict.fromkeys(text for reader in readers for text in reader.waits()):
                typer.echo(f"twinlog: waiting: {text}", err=True)
            wait_s = again_s

    thread = threading.Thread(target=report, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
