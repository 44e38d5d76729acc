"""The cost of a watcher for a flow: the same copy by turns, with the watcher and without it."""

from __future__ import annotations

import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import unescape
from pathlib import Path
from statistics import median

from bench.copying import CopyFigures, measure_copy
from bench.items import RepeatedItem
from bench.systems import ALIASES, TARGET, Setup
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.ports import claim_port, release_port

EVERY_S = 1.0
REQUEST_S = 10.0
FLOW_PAGE = "/ui/flow?" + urllib.parse.urlencode({"flow": f"{ALIASES['twinlog']}->{TARGET}"})
LIVE = re.compile(r'data-live="([^"]+)"')


class Watcher:
    """Asks a running system for pages, on threads of the bench, from `start` until `stop`."""

    def __init__(self, threads: int) -> None:
        self._port = claim_port()
        self.listener = f"http://127.0.0.1:{self._port}"
        self.took_ms: list[float] = []
        """The time of each page."""
        self.page_bytes = 0
        self._threads = threads
        self._running: list[threading.Thread] = []
        self.ended = threading.Event()

    def start(self) -> None:
        self.ended.clear()
        self._running = [threading.Thread(target=self._run, daemon=True) for _ in range(self._threads)]
        for thread in self._running:
            thread.start()

    def stop(self) -> None:
        self.ended.set()
        for thread in self._running:
            thread.join(2 * REQUEST_S)

    def close(self) -> None:
        """Give the port back."""
        release_port(self._port)

    def ask(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        """Ask for a page and keep its time. Raises OSError while the system does not listen."""
        begun = time.monotonic()
        request = urllib.request.Request(self.listener + path, headers=headers or {})
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            page: bytes = answer.read()
        self.took_ms.append((time.monotonic() - begun) * 1000)
        self.page_bytes = len(page)
        return page

    def watch(self) -> None:
        """Ask once, or for as long as there is something new. Raises OSError while the system does not listen."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.ended.wait(EVERY_S):
            try:
                self.watch()
            except OSError:
                # It has not begun to listen, or has ended.
                continue


class Scraper(Watcher):
    """A scraper of `/metrics`, once a second."""

    def __init__(self) -> None:
        super().__init__(threads=1)

    def watch(self) -> None:
        self.ask("/metrics")


class Browsers(Watcher):
    """Browsers with the console's page of the flow open: each asks for the page again with each event of its stream."""

    def __init__(self) -> None:
        super().__init__(threads=5)

    def watch(self) -> None:
        live = LIVE.search(self.ask(FLOW_PAGE).decode())
        if live is None:
            raise HarnessError(f"the page of the flow at {self.listener} has no stream of events")
        with urllib.request.urlopen(self.listener + unescape(live[1]), timeout=REQUEST_S) as stream:
            for line in stream:
                if self.ended.is_set():
                    return
                if line.startswith(b"event: reading"):
                    self.ask(FLOW_PAGE, {"X-Live": "1", "HX-Request": "true", "HX-Target": "div#live"})


WATCHERS: dict[str, type[Scraper | Browsers]] = {"metrics": Scraper, "console": Browsers}
"""The watcher of each item, by the item's name."""


@dataclass(frozen=True, slots=True)
class WatchedFigures:
    """Medians of the runs, and the ratio of those with a watcher to those without."""

    records_per_s_plain: float
    records_per_s_watched: float
    records_ratio: float
    cpu_s_plain: float
    cpu_s_watched: float
    cpu_ratio: float
    page_ms: float
    pages: int
    page_bytes: int


def measure_watched(
    item: RepeatedItem,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
) -> tuple[WatchedFigures, dict[str, list[dict[str, object]]]]:
    """Copy the filled topic `item.copy.name` so many times in both ways, by turns; who goes first changes."""
    runs: dict[str, list[CopyFigures]] = {"plain": [], "watched": []}
    watcher = WATCHERS[item.name]()
    try:
        setups = {
            "plain": Setup("twinlog", item.copy.name),
            "watched": Setup("twinlog", item.copy.name, watcher=watcher),
        }
        for number in range(item.rounds):
            for way in sorted(setups, reverse=bool(number % 2)):
                runs[way].append(measure_copy(item.copy, setups[way], source, target, work, talk(way)))
    finally:
        watcher.close()
    if not watcher.took_ms:
        raise HarnessError(f"{item.name}: no page came from {watcher.listener}")
    return figures_of(runs["plain"], runs["watched"], watcher.took_ms, watcher.page_bytes), {
        way: [asdict(one) for one in many] for way, many in runs.items()
    }


def figures_of(
    plain: list[CopyFigures], watched: list[CopyFigures], took_ms: list[float], page_bytes: int
) -> WatchedFigures:
    """What the runs came to."""
    rates = [median(one.records_per_s for one in many) for many in (plain, watched)]
    cpu = [median(one.cpu_s for one in many) for many in (plain, watched)]
    return WatchedFigures(
        records_per_s_plain=rates[0],
        records_per_s_watched=rates[1],
        records_ratio=rates[1] / rates[0],
        cpu_s_plain=cpu[0],
        cpu_s_watched=cpu[1],
        cpu_ratio=cpu[1] / cpu[0],
        page_ms=median(took_ms),
        pages=len(took_ms),
        page_bytes=page_bytes,
    )
