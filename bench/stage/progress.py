"""Lines of progress, with the time."""

from __future__ import annotations

import time
from collections.abc import Callable

Say = Callable[[str], None]


def say(text: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def talking(head: str) -> Say:
    """Says what a part of the work has to say, after the part's name."""

    def talk(text: str) -> None:
        say(f"{head}: {text}")

    return talk


def silent(text: str) -> None:
    """Says nothing."""
    del text
