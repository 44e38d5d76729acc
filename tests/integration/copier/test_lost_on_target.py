"""The target loses records that it had acknowledged: they are copied again, from exactly where they came from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.copying import CopyFlow
from tests.integration.segments import stored_batches
from twinlog.kafka import client

COPIED, LEFT, NEW = 100, 60, 20


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no cluster is far, so batches are not merged."""
    monkeypatch.setattr(client, "FAR_S", 3600.0)


@pytest.fixture
def frail() -> Iterator[KafkaCluster]:
    with KafkaCluster("forgetful", sasl=False, heap="256m") as cluster:
        yield cluster


def in_transactions(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Records in transactions of five, so that the source has a hole after each."""
    producer = Producer({**cluster.client_config(), "transactional.id": topic})
    producer.init_transactions(30)
    for start in range(0, count, 5):
        producer.begin_transaction()
        for record in numbered(5, start=start):
            producer.produce(topic, record.value, partition=0)
        producer.commit_transaction(30)


def cut_back(cluster: KafkaCluster, topic: str, end: int) -> None:
    """Let a broker that is down have lost the last records of a topic, with all that it knew of their producer."""
    keep = sum(batch.size for batch in stored_batches(cluster, topic) if batch.last_offset < end)
    (segment,) = (cluster.brokers[1].data / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(keep)
    for snapshot in segment.parent.glob("*.snapshot"):
        snapshot.unlink()


def test_what_the_target_lost_is_copied_again(source_cluster: KafkaCluster, frail: KafkaCluster) -> None:
    flow = CopyFlow(source_cluster, frail)
    with closing(flow):
        plain, holes, live, whole = names = [f"lost-{kind}" for kind in ("plain", "holes", "live", "whole")]
        left = dict.fromkeys(names, LEFT) | {whole: 0}
        for name in names:
            flow.create(name)
        for start in range(0, COPIED, 10):
            for name in (plain, live, whole):
                produce(flow.source, name, numbered(10, start=start))
        in_transactions(flow.source, holes, COPIED)
        # Small batches, so that the log can be cut between them.
        small: dict[str, Any] = {"producer": {"merge_batch_bytes": 1}}
        flow.copy(plain, holes, **small)
        running = flow.start(live, whole, **small)
        for name in (live, whole):
            running.wait_for_position(name, COPIED)
        frail.kill()
        for name in names:
            cut_back(frail, flow.remote(name), left[name])
        frail.restart()

        def lost() -> bool:
            try:
                return all(offsets(frail, flow.remote(name))[1] == left[name] for name in names)
            except KafkaException:
                # The broker has just come back and does not lead yet.
                return False

        wait_for(lost, 120, "records are lost")

        for name in names:
            produce(flow.source, name, numbered(NEW, start=COPIED))
        again = flow.copy(plain, holes)
        flow.wait_until_caught_up(running, live, whole)
        running.release()

        for name in names:
            values = [int(record.value or b"") for record in consume(frail, flow.remote(name))]
            # Of the whole log nothing is left that would have kept the first new append away.
            astray = values[: len(values) - COPIED - NEW] if name == whole else []
            assert values == [*astray, *range(COPIED + NEW)], name
            assert set(astray) <= set(range(COPIED, COPIED + NEW))
        reported = {
            name: text for name in names for text in again.events("target") + running.events("target") if name in text
        }
        assert f"source offsets {LEFT} to {COPIED - 1} of {plain}-0 are copied again" in reported[plain]
        assert f"source offsets {LEFT} to {COPIED - 1} of {live}-0 are copied again" in reported[live]
        assert f"source offsets 0 to {COPIED - 1} of {whole}-0 are copied again" in reported[whole]
        assert "40 records were lost on the target; source offsets 71 to 119 of" in reported[holes]
        assert not any("some may be missing" in text for text in reported.values())


def test_what_the_target_lost_of_transactions_is_copied_again(
    source_cluster: KafkaCluster, frail: KafkaCluster
) -> None:
    flow = CopyFlow(source_cluster, frail)
    with closing(flow):
        some, whole = names = ["lost-some", "lost-all"]
        left = {some: LEFT, whole: 0}
        for name in names:
            flow.create(name)
            for start in range(0, COPIED, 10):
                produce(flow.source, name, numbered(10, start=start))
        running = flow.start(
            *names, exactly_once="enabled", transaction_interval_ms=20, producer={"merge_batch_bytes": 1}
        )
        flow.wait_until_caught_up(running, *names)
        frail.kill()
        for name in names:
            cut_back(frail, flow.remote(name), left[name])
        frail.restart()
        for name in names:
            produce(flow.source, name, numbered(NEW, start=COPIED))
        flow.wait_until_caught_up(running, *names)
        running.release()

        assert running.heard.failures == []
        for name in names:
            values = [int(record.value or b"") for record in consume(frail, flow.remote(name))]
            assert values == list(range(COPIED + NEW)), name
            assert any("are copied again" in text and name in text for text in running.events("target"))
