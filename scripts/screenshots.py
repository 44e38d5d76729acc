"""Takes the docs' pictures of the console: two clusters, a flow under load, `twinlog run` and Chromium.

With --check it only says whether a page in a picture has changed since, and ends with 1 then. Needs the system's
Chromium.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlencode

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.ports import claim_port, release_port
from harness.produce import NewRecord, produce
from harness.topics import create_topic
from harness.web.browser import MISSING, find_chromium, launch_chromium

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SUM = PICTURES / "console.sha256"
UI = ROOT / "src" / "twinlog" / "ui"
FLOW = "amsterdam->berlin"
PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "overview": ("/", {}),
    "flow": ("/flow", {"flow": FLOW}),
    "readiness": ("/readiness", {"flow": FLOW}),
    "records": ("/records", {"flow": FLOW, "topic": "orders", "partition": "0", "place": "offset", "value": "100"}),
}
"""Name of a picture, and the address of its page."""

TOPICS = {"orders": 6, "payments": 4, "customers": 2}
SMALL = "invoices"
"""A topic whose copy takes smaller records, so that a partition is held."""

RECORDS_PER_S = 300
WATCHED_S = 75.0
"""Time for a line in the charts."""

WIDTH, HEIGHT = 1240, 820


def sources() -> Iterator[Path]:
    """The files that the pictures show."""
    for name in ("base", "parts", *PAGES):
        yield from (UI / "templates").rglob(f"{name}.html")
    yield from (UI / "static" / name for name in ("charts.js", "console.css"))


def sum_of_sources() -> str:
    """A hash of these files."""
    made = hashlib.sha256()
    for path in sources():
        made.update(path.read_bytes())
    return made.hexdigest()


def properties(source: KafkaCluster, target: KafkaCluster, port: int) -> str:
    """The file of the flow."""
    return "\n".join(
        [
            "clusters = amsterdam, berlin",
            f"amsterdam.bootstrap.servers = {source.bootstrap}",
            f"berlin.bootstrap.servers = {target.bootstrap}",
            f"{FLOW}.enabled = true",
            f"{FLOW}.topics = {', '.join([*TOPICS, SMALL])}",
            "sync.group.offsets.enabled = true",
            "sync.topic.configs.enabled = false",
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            f"twinlog.metrics.listeners = http://127.0.0.1:{port}",
            "",
        ]
    )


class Orders:
    """Writes some hundred records a second until `close`, and lets two groups follow."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self._draw = random.Random(9)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._written = dict.fromkeys(TOPICS, 0)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            began = time.monotonic()
            for topic, partitions in TOPICS.items():
                many = self._draw.randrange(RECORDS_PER_S // 2, RECORDS_PER_S) // partitions
                for partition in range(partitions):
                    made = [self._record(topic, self._written[topic] + number) for number in range(many)]
                    produce(self._cluster, topic, made, partition=partition)
                self._written[topic] += many
            done = {("orders", number): max(self._written["orders"] - 40, 0) for number in range(TOPICS["orders"])}
            paid = {("payments", number): self._written["payments"] for number in range(TOPICS["payments"])}
            commit_offsets(self._cluster, {"warehouse": done, "billing": {**done, **paid}})
            if time.monotonic() - began > 5:
                print("this machine is slow: the pictures show less load", file=sys.stderr)

    def _record(self, topic: str, number: int) -> NewRecord:
        value = {"id": number, "topic": topic, "amount": self._draw.randrange(100, 99_000) / 100, "currency": "EUR"}
        return NewRecord(value=json.dumps(value).encode(), key=f"{topic[:-1]}-{number}".encode())


def take(home: Path, stack: ExitStack) -> None:
    """Start everything, wait for a line in the charts, and write the pictures."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    program = find_chromium()
    if program is None:
        raise SystemExit(MISSING)
    source, target = (stack.enter_context(closing(KafkaCluster(name))) for name in ("amsterdam", "berlin"))
    source.start_async()
    target.start_async()
    source.wait_ready()
    target.wait_ready()
    for topic, partitions in {**TOPICS, SMALL: 1}.items():
        create_topic(source, topic, partitions)
    create_topic(target, SMALL, 1, config={"max.message.bytes": "1000"})
    large = NewRecord(value=b'{"lines": "' + b"x" * 3000 + b'"}', key=b"invoice-2")
    produce(source, SMALL, [NewRecord(value=b"{}", key=b"invoice-1"), large])
    port = claim_port()
    stack.callback(release_port, port)
    file = home / "mm2.properties"
    file.write_text(properties(source, target, port), encoding="utf-8")
    run = Child("twinlog", [sys.executable, "-m", "twinlog", "run", str(file)], home / "twinlog.log")
    stack.callback(run.terminate)
    run.start()
    orders = Orders(source)
    stack.callback(orders.close)
    orders.start()
    with sync_playwright() as play:
        browser = launch_chromium(play, program)
        page = browser.new_context(
            color_scheme="light", viewport={"width": WIDTH, "height": HEIGHT}, locale="en-US"
        ).new_page()
        root = f"http://127.0.0.1:{port}/ui"
        _open_once_it_listens(page.goto, f"{root}/flow?{urlencode({'flow': FLOW})}")
        print(f"the flow is watched for {WATCHED_S:g} s", flush=True)
        page.wait_for_timeout(WATCHED_S * 1000)
        for name, (path, query) in PAGES.items():
            page.goto(f"{root}{path}{'?' if query else ''}{urlencode(query)}", wait_until="load")
            if name == "readiness":
                page.locator("#live", has_text="By a rehearsal at").wait_for(timeout=60_000)
            page.wait_for_timeout(1_000)
            page.screenshot(path=str(PICTURES / f"console-{name}.png"))
        browser.close()


def _open_once_it_listens(goto: Callable[[str], object], url: str) -> None:
    from playwright.sync_api import Error  # noqa: PLC0415

    ends = time.monotonic() + 120
    while True:
        try:
            goto(url)
        except Error:
            if time.monotonic() > ends:
                raise
            time.sleep(1)
        else:
            return


def main() -> int:
    if "--check" in sys.argv[1:]:
        if SUM.is_file() and SUM.read_text(encoding="ascii").strip() == sum_of_sources():
            print("The pictures of the console show its pages as they are.")
            return 0
        print("A page of the console has changed since its picture: run `make screenshots`.", file=sys.stderr)
        return 1
    home = Path(tempfile.mkdtemp(prefix="twinlog-pictures-"))
    try:
        with ExitStack() as stack:
            take(home, stack)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    SUM.write_text(sum_of_sources() + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
