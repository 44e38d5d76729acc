"""The demo's comparison must see what it promises to see, and its output must show no login."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import demo.progress
from demo.compare import Comparison, Content
from demo.load import Load
from demo.mirror import hidden
from demo.progress import Progress
from demo.records import ORDER, TOPICS
from harness.cluster import PLAIN_LOGIN


def content(value: bytes, *, timestamp: int = 5) -> Content:
    return (b"key", value, [("name", None)], (1, timestamp))


def compared(source: list[Content], target: list[Content]) -> Comparison:
    comparison = Comparison()
    for offset, record in enumerate(source):
        comparison.see("source", ("t", 0), 10 + offset, record)
    for offset, record in enumerate(target):
        comparison.see("target", ("t", 0), offset, record)
    comparison.end()
    return comparison


def test_equal_records_are_counted_with_their_bytes() -> None:
    found = compared([content(b"one"), content(b"two")], [content(b"one"), content(b"two")])
    assert (found.different, found.records, found.bytes, found.partitions) == (0, 2, 12, {("t", 0)})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([content(b"one"), content(b"TWO")], ["t-0: the copy of source offset 11 has another value"]),
        ([content(b"one"), content(b"two", timestamp=6)], ["t-0: the copy of source offset 11 has another timestamp"]),
        ([content(b"one")], ["t-0: 1 record is missing from the target, from offset 11 on"]),
        (
            [content(b"one"), content(b"two"), content(b"two")],
            ["t-0: 1 record is on the target only, from offset 2 on"],
        ),
        (
            [content(b"two"), content(b"one")],
            [f"t-0: the copy of source offset {offset} has another value" for offset in (10, 11)],
        ),
    ],
    ids=["value", "timestamp", "lost", "twice", "order"],
)
def test_a_difference_is_reported(target: list[Content], expected: list[str]) -> None:
    assert compared([content(b"one"), content(b"two")], target).differences == expected


def test_both_sides_may_be_read_in_any_turn() -> None:
    comparison = Comparison()
    for number in range(3):
        comparison.see("target", ("t", 1), number, content(b"%d" % number))
    for number in range(3):
        comparison.see("source", ("t", 1), number, content(b"%d" % number))
    comparison.end()
    assert (comparison.different, comparison.records) == (0, 3)


def test_every_topic_gets_its_share_of_a_hundred_records() -> None:
    assert {topic.name: ORDER.count(topic) for topic in TOPICS} == {topic.name: topic.share for topic in TOPICS}
    assert sum(topic.share for topic in TOPICS) == 100


def test_no_login_is_shown() -> None:
    jaas = f'{PLAIN_LOGIN} username="mirrormaker" password="mirrormaker1-secret";'
    shown = hidden(
        f"kafka-1.sasl.jaas.config={jaas}\nkafka-1.sasl.jaas.config = {jaas}\nkafka-1->kafka-2.enabled = true\n"
    )
    assert "secret" not in shown
    assert "mirrormaker" not in shown
    assert shown.endswith("\nkafka-1->kafka-2.enabled = true\n")


class ReportedTopics:
    """A cluster whose progress topic has one report, with records of these topics."""

    def __init__(self, *topics: str) -> None:
        part = {"partition": 0, "records": 5, "bytes": 50, "source_offset": 5, "end": 5, "latency_ms": 1}
        report = {"flow": "a->b", "seconds": 1.0, "partitions": [{"topic": topic, **part} for topic in topics]}
        self._messages = [SimpleNamespace(error=lambda: None, value=lambda: json.dumps(report).encode())]
        self.topics = {"progress": None}

    def client_config(self, user: str) -> dict[str, str]:
        return {}

    def list_topics(self, timeout: float) -> ReportedTopics:
        return self

    def assign(self, partitions: list[object]) -> None: ...

    def consume(self, **_: object) -> list[Any]:
        return self._messages


def test_heartbeats_are_no_copied_records_of_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = ReportedTopics("orders", "heartbeats")
    for name in ("AdminClient", "Consumer"):
        monkeypatch.setattr(demo.progress, name, lambda _: cluster)
    progress = Progress(cluster, "admin", "progress", "a->b")
    progress.look()
    assert (progress.copied, progress.offsets) == (5, {("orders", 0): 5})


def test_the_number_of_written_records_never_falls() -> None:
    """The thread of the load adds records between the two counts."""
    load = Load.__new__(Load)
    load._written = 0
    load._given = 100
    producers: dict[str, Any] = {"orders": [None] * 20}
    load._producers = producers
    assert load.written == 80
    producers["orders"] = [None] * 50
    assert load.written == 80
