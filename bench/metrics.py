"""What it costs a flow to be scraped: the same copy by turns, with somebody who asks for `/metrics` and without."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.copying import CopyFigures, measure_copy
from bench.items import RepeatedItem
from bench.systems import Setup
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.ports import claim_port, release_port

EVERY_S = 1.0
REQUEST_S = 10.0


class Scraper:
    """Asks once a second, on a thread of the bench, from `start` until `stop`."""

    def __init__(self) -> None:
        self._port = claim_port()
        self.listener = f"http://127.0.0.1:{self._port}"
        self.took_ms: list[float] = []
        """How long each page took that came."""
        self.page_bytes = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2 * REQUEST_S)

    def close(self) -> None:
        """Give the port back."""
        release_port(self._port)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            begun = time.monotonic()
            try:
                with urllib.request.urlopen(f"{self.listener}/metrics", timeout=REQUEST_S) as answer:
                    self.page_bytes = len(answer.read())
            except OSError:
                # It has not begun to listen, or has ended.
                continue
            self.took_ms.append((time.monotonic() - begun) * 1000)


@dataclass(frozen=True, slots=True)
class MetricsFigures:
    """Medians of the runs, and the ratio of those with a scraper to those without."""

    records_per_s_plain: float
    records_per_s_scraped: float
    records_ratio: float
    cpu_s_plain: float
    cpu_s_scraped: float
    cpu_ratio: float
    scrape_ms: float
    scrapes: int
    page_bytes: int


def measure_metrics(
    item: RepeatedItem,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
) -> tuple[MetricsFigures, dict[str, list[dict[str, object]]]]:
    """Copy the filled topic `item.copy.name` so many times in both ways, by turns; who goes first changes."""
    runs: dict[str, list[CopyFigures]] = {"plain": [], "scraped": []}
    scraper = Scraper()
    try:
        setups = {
            "plain": Setup("twinlog", item.copy.name),
            "scraped": Setup("twinlog", item.copy.name, scraper=scraper),
        }
        for number in range(item.rounds):
            for way in sorted(setups, reverse=bool(number % 2)):
                runs[way].append(measure_copy(item.copy, setups[way], source, target, work, talk(way)))
    finally:
        scraper.close()
    if not scraper.took_ms:
        raise HarnessError(f"nobody answered at {scraper.listener}/metrics")
    return figures_of(runs["plain"], runs["scraped"], scraper.took_ms, scraper.page_bytes), {
        way: [asdict(one) for one in many] for way, many in runs.items()
    }


def figures_of(
    plain: list[CopyFigures], scraped: list[CopyFigures], took_ms: list[float], page_bytes: int
) -> MetricsFigures:
    """What the runs came to."""
    rates = [median(one.records_per_s for one in many) for many in (plain, scraped)]
    cpu = [median(one.cpu_s for one in many) for many in (plain, scraped)]
    return MetricsFigures(
        records_per_s_plain=rates[0],
        records_per_s_scraped=rates[1],
        records_ratio=rates[1] / rates[0],
        cpu_s_plain=cpu[0],
        cpu_s_scraped=cpu[1],
        cpu_ratio=cpu[1] / cpu[0],
        scrape_ms=median(took_ms),
        scrapes=len(took_ms),
        page_bytes=page_bytes,
    )
