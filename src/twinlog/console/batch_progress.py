"""Shows on a terminal how far a batch job is, and how long it still takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from twinlog.clock import SYSTEM

EVERY_S = 0.3
console = Console(stderr=True)


class BatchProgress:
    """A bar with the remaining time; it stays hidden if stderr is a file or a pipe. `done()` is how many of `total`
    offsets are."""

    def __init__(self, doing: str, total: int, done: Callable[[], int]) -> None:
        self._doing = doing
        self._total = total
        self._done = done
        self._over = threading.Event()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._thread = threading.Thread(target=self._run, name="display", daemon=True)

    def __enter__(self) -> BatchProgress:
        self._bars.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._bars.stop()

    def _run(self) -> None:
        task = self._bars.add_task(self._doing, total=max(1, self._total))
        while not SYSTEM.wait(self._over, EVERY_S):
            self._bars.update(task, completed=min(self._done(), self._total))
