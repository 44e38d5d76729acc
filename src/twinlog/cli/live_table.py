"""The table of `twinlog run` on a terminal. Only `run` on a terminal imports the drawing library."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from twinlog.cli.live import eta, lag
from twinlog.clock import SYSTEM

if TYPE_CHECKING:
    from twinlog.worker.runner import Runner

TABLE_EVERY_S = 0.5
FIGURES = ("partitions", "tasks", "records/s", "MB/s", "lag", "ETA", "copied")
NARROW = ("records/s", "lag", "copied")
"""The remaining figures on a terminal of less than `WIDE` columns."""
WIDE = 100


class LiveTable:
    """A table that is drawn again twice a second."""

    def __init__(self, runner: Runner, terminal: Console) -> None:
        self._runner = runner
        self._terminal = terminal
        self._ended = threading.Event()
        self._live = Live(console=terminal, auto_refresh=False, transient=False)
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._live.start()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._live.is_started:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def _run(self) -> None:
        while not SYSTEM.wait(self._ended, TABLE_EVERY_S):
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(title=self._runner.web_url and f"Spark's pages: {self._runner.web_url}", title_justify="left")
        shown = FIGURES if self._terminal.width >= WIDE else NARROW
        for name in ("flow", "state"):
            table.add_column(name, overflow="fold")
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for flow in self._runner.flows:
            seen = flow.flow_status.summary()
            state, detail = flow.status
            figures = {
                "partitions": f"{seen.partitions:,}",
                "tasks": f"{seen.copiers}",
                "records/s": f"{seen.record_rate:,.0f}",
                "MB/s": f"{seen.byte_rate / 1e6:,.1f}",
                "lag": "none" if state == "idle" else lag(seen),
                "ETA": "" if flow.ended else eta(seen),
                "copied": f"{seen.records:,}",
            }
            table.add_row(
                flow.settings.name,
                state if detail is None else f"{state}: {detail}",
                *(figures[name] for name in shown),
            )
        for idle in self._runner.idle:
            table.add_row(idle.settings.name, idle.text)
        return table
