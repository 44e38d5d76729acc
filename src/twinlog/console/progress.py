"""Shows on a terminal how far the reading of clusters or a batch job is, and the remaining time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from twinlog.clock import SYSTEM
from twinlog.console.log_options import shows_progress

console = Console(stderr=True)

EVERY_S = 0.3


class ReadingProgress:
    """Bars with the remaining time, a bar for each cluster and kind of content; they stay hidden if stderr is a file or
    a pipe."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal and shows_progress()),
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def __enter__(self) -> ReadingProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, alias: str, what: str, done: int, total: int) -> None:
        """So many of `total` were read."""
        task = self._tasks.get((alias, what))
        if task is None:
            task = self._tasks[alias, what] = self._bars.add_task(f"{alias}: {what}", total=max(1, total))
        self._bars.update(task, completed=done, total=max(1, total))


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
            disable=not (console.is_terminal and shows_progress()),
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
