"""Shows how far the reading of clusters is, on a terminal, once it takes long."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

console = Console(stderr=True)


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
            disable=not console.is_terminal,
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
