"""The cost of a watcher for a flow: the same copy by turns, with the watcher and without it."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import unescape
from http.cookies import SimpleCookie
from pathlib import Path
from statistics import median

from bench.copies.copying import CopyFigures, measure_by_turns
from bench.items.kinds import RepeatedItem
from bench.systems import ALIASES, TARGET, Setup
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.ports import claim_port, release_port

EVERY_S = 1.0
REQUEST_S = 10.0
STREAM_S = 60.0
"""A stream of events is silent for 15 s at most; a browser waits for ever."""
FLOW_PAGE = "/ui/flow?" + urllib.parse.urlencode({"flow": f"{ALIASES['twinlog']}->{TARGET}"})
LIVE = re.compile(r'data-live="([^"]+)"')
POINTS = re.compile(r'data-points="([^"]+)"')
LIVE_PART = {"X-Live": "1", "HX-Request": "true", "HX-Target": "div#live"}


class WatchingClient:
    """A client of a watcher: it keeps connection and cookies, and takes compressed answers, as a browser does."""

    def __init__(self, listener: str, ended: threading.Event) -> None:
        self.ended = ended
        self.pages = 0
        self._address = urllib.parse.urlsplit(listener).netloc
        self._connection = http.client.HTTPConnection(self._address, timeout=REQUEST_S)
        self._cookies: dict[str, str] = {}

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        """The answer over a connection of its own, which is closed after it. Raises OSError while the system does not
        listen, and for a refusal."""
        connection = http.client.HTTPConnection(self._address, timeout=STREAM_S)
        try:
            yield self._answer(connection, path, headers)
        finally:
            connection.close()

    def ask(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[str, int]:
        """The text of an answer, and its bytes on the wire. Raises as `stream` does, and HTTPException."""
        try:
            answer = self._answer(self._connection, path, {"Accept-Encoding": "gzip", **(headers or {})})
            content = answer.read()
        except (OSError, http.client.HTTPException):
            # The next request connects again.
            self._connection.close()
            raise
        packed = answer.headers.get("Content-Encoding") == "gzip"
        return (gzip.decompress(content) if packed else content).decode(), len(content)

    def close(self) -> None:
        self._connection.close()

    def _answer(
        self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        connection.request("GET", path, headers={**headers, **(cookies if self._cookies else {})})
        answer = connection.getresponse()
        for text in answer.headers.get_all("Set-Cookie", []):
            self._cookies.update((name, morsel.value) for name, morsel in SimpleCookie(text).items())
        if answer.status != http.HTTPStatus.OK:
            raise OSError(f"{path} is answered with status {answer.status}")
        return answer


class Watcher:
    """Asks a running system for pages, with clients on threads of the bench, from `start` until `stop`."""

    def __init__(self, threads: int) -> None:
        self._port = claim_port()
        self.listener = f"http://127.0.0.1:{self._port}"
        self.took_ms: list[float] = []
        """The time of each page."""
        self.refreshed_at: list[float] = []
        """When a client showed a page again, as it had news."""
        self.opening_cpu_s: list[float] = []
        self.page_bytes = 0
        self._threads = threads
        self._running: list[threading.Thread] = []
        self._clients: list[WatchingClient] = []
        self._ended = threading.Event()
        self._trouble = ""

    def start(self) -> None:
        self._join()
        # A thread of the run before ends by an event of its own, however late it looks.
        self._ended = threading.Event()
        self._clients = [WatchingClient(self.listener, self._ended) for _ in range(self._threads)]
        self._running = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in self._clients]
        for thread in self._running:
            thread.start()

    @property
    def opened(self) -> bool:
        """Whether all clients have had a page since the start. Raises HarnessError when a client has ended early."""
        self.require_watched()
        return all(client.pages for client in self._clients)

    def stop(self) -> None:
        """Ask for no more; streams end with the system, which ends next."""
        self._ended.set()

    def close(self) -> None:
        """Give the port back."""
        self._ended.set()
        self._join()
        release_port(self._port)

    def require_watched(self) -> None:
        """Raises HarnessError when a client has ended early: the others alone cost less than all of them."""
        if self._trouble:
            raise HarnessError(self._trouble)

    def ask_page(self, client: WatchingClient, path: str, headers: Mapping[str, str] | None = None) -> str:
        """Ask for a page and keep its time. Raises OSError while the system does not listen."""
        begun = time.monotonic()
        text, size = client.ask(path, headers)
        self.took_ms.append((time.monotonic() - begun) * 1000)
        self.page_bytes = size
        client.pages += 1
        return text

    def watch(self, client: WatchingClient) -> None:
        """Ask once, or for as long as there is something new. Raises OSError while the system does not listen."""
        raise NotImplementedError

    def _join(self) -> None:
        for thread in self._running:
            thread.join(STREAM_S)
        self._running = []

    def _run(self, client: WatchingClient) -> None:
        try:
            while not client.ended.wait(EVERY_S):
                try:
                    self.watch(client)
                except (OSError, http.client.HTTPException):
                    # It has not begun to listen, or has ended.
                    continue
        except Exception as error:
            self._trouble = f"a client of {self.listener} ended: {type(error).__name__}: {error}"
        finally:
            client.close()


class Scraper(Watcher):
    """A scraper of `/metrics`, once a second."""

    def __init__(self) -> None:
        super().__init__(threads=1)

    def watch(self, client: WatchingClient) -> None:
        self.ask_page(client, "/metrics")


class Browsers(Watcher):
    """Browsers with the console's page of the flow open: each asks for the live part of the page, and for new points of
    its charts, with each event of its stream."""

    def __init__(self) -> None:
        super().__init__(threads=5)

    def watch(self, client: WatchingClient) -> None:
        page = self.ask_page(client, FLOW_PAGE)
        live, points = LIVE.search(page), POINTS.search(page)
        if live is None or points is None:
            raise HarnessError(f"the page of the flow at {self.listener} has no stream of events, or no charts")
        charts = unescape(points[1])
        since = shown_until(client, charts, 0)
        with client.stream(unescape(live[1]), {"Accept": "text/event-stream"}) as stream:
            for line in stream:
                if client.ended.is_set():
                    return
                if line.startswith(b"event: reading"):
                    self.ask_page(client, FLOW_PAGE, LIVE_PART)
                    since = shown_until(client, charts, since)
                    self.refreshed_at.append(time.monotonic())


def shown_until(client: WatchingClient, charts: str, since: int) -> int:
    """Ask for the points of the charts after a moment (Unix ms); the moment of the last point."""
    text, _ = client.ask(f"{charts}&since={since}", {"X-Live": "1"})
    moments = json.loads(text)["at_s"]
    return int(moments[-1] * 1000) if moments else since


WATCHERS: dict[str, type[Scraper | Browsers]] = {"metrics": Scraper, "console": Browsers}
"""The watcher of each item, by the item's name."""


@dataclass(frozen=True, slots=True)
class WatchedFigures:
    """Medians of the runs, and the ratio of those with a watcher to those without.

    Copies begin when the watcher has its first pages, which took `opening_cpu_s` of the system.
    """

    records_per_s_plain: float
    records_per_s_watched: float
    records_ratio: float
    cpu_s_plain: float
    cpu_s_watched: float
    cpu_ratio: float
    opening_cpu_s: float
    page_ms: float
    pages: int
    page_bytes: int
    refreshes: int


def measure_watched(
    item: RepeatedItem,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
) -> tuple[WatchedFigures, dict[str, list[dict[str, object]]]]:
    """Copy the filled topic `item.copy.name` so many times without and with the watcher, by turns."""
    watcher = WATCHERS[item.name]()
    try:
        setups = {
            "plain": Setup("twinlog", item.copy.name, held=True),
            "watched": Setup("twinlog", item.copy.name, held=True, watcher=watcher),
        }
        runs = measure_by_turns(item, setups, source, target, work, talk, watcher.require_watched)
    finally:
        watcher.close()
    if not watcher.took_ms:
        raise HarnessError(f"{item.name}: no page came from {watcher.listener}")
    return figures_of(runs["plain"], runs["watched"], watcher), {
        way: [asdict(one) for one in many] for way, many in runs.items()
    }


def figures_of(plain: list[CopyFigures], watched: list[CopyFigures], watcher: Watcher) -> WatchedFigures:
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
        opening_cpu_s=median(watcher.opening_cpu_s),
        page_ms=median(watcher.took_ms),
        pages=len(watcher.took_ms),
        page_bytes=watcher.page_bytes,
        refreshes=len(watcher.refreshed_at),
    )
