"""What `twinlog run` shows while it runs: a table on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from twinlog.run.view import Summary

if TYPE_CHECKING:
    from twinlog.run.runner import Runner
    from twinlog.run.seat import Seat

log = logging.getLogger("twinlog")
console = Console(stderr=True)

LINE_EVERY_S = 10.0
TABLE_EVERY_S = 0.5
FIGURES = ("partitions", "tasks", "records/s", "MB/s", "lag", "ETA", "copied")
NARROW = ("records/s", "lag", "copied")
"""What is left of the figures on a terminal of less than `WIDE` columns."""
WIDE = 100


class LogLines:
    """One log line per flow every ten seconds, and a last one at the end."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        for flow in self._runner.flows:
            log.info("%s", _line(flow))

    def _run(self) -> None:
        said_url = False
        while not self._ended.wait(LINE_EVERY_S):
            if self._runner.web_url and not said_url:
                log.info("Spark's pages: %s", self._runner.web_url)
                said_url = True
            for flow in self._runner.flows:
                log.info("%s", _line(flow))


class LiveTable:
    """A table that is drawn again twice a second."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._ended = threading.Event()
        self._live = Live(console=console, auto_refresh=False, transient=False)
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
        while not self._ended.wait(TABLE_EVERY_S):
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(title=self._runner.web_url and f"Spark's pages: {self._runner.web_url}", title_justify="left")
        shown = FIGURES if console.width >= WIDE else NARROW
        for name in ("flow", "state"):
            table.add_column(name, overflow="fold")
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for flow in self._runner.flows:
            seen = flow.view.summary()
            state = flow.state.value if not seen.trouble or flow.ended else f"{flow.state.value}: {seen.trouble}"
            state = flow.waits or state
            figures = {
                "partitions": f"{seen.partitions:,}",
                "tasks": f"{seen.copiers}",
                "records/s": f"{seen.record_rate:,.0f}",
                "MB/s": f"{seen.byte_rate / 1e6:,.1f}",
                "lag": "?" if seen.lag < 0 else f"{seen.lag:,}",
                "ETA": eta(seen),
                "copied": f"{seen.records:,}",
            }
            table.add_row(
                flow.settings.name,
                state if flow.reason is None else f"{state}: {flow.reason}",
                *(figures[name] for name in shown),
            )
        for idle in self._runner.idle:
            table.add_row(idle.settings.name, idle.text)
        return table


def eta(seen: Summary) -> str:
    """When the lag will be gone, in words."""
    if seen.eta_s is None:
        return "?"
    if seen.eta_s < 1:
        return "now" if seen.lag == 0 else "1 s"
    seconds = int(seen.eta_s)
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _line(flow: Seat) -> str:
    if flow.waits is not None:
        return f"{flow.settings.name}: {flow.waits}"
    seen = flow.view.summary()
    lag = "unknown" if seen.lag < 0 else f"{seen.lag}"
    text = (
        f"{flow.settings.name}: {flow.state.value}, {seen.partitions} partitions, {seen.records} records copied, "
        f"{seen.record_rate:.0f} records/s, {seen.byte_rate / 1e6:.1f} MB/s, lag {lag}, ETA {eta(seen)}"
    )
    if seen.trouble and not flow.ended:
        text += f", trouble: {seen.trouble}"
    return text if flow.reason is None else f"{text}: {flow.reason}"
