"""A value that Kafka's own definition of a key takes is taken here, or has a reason why it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from twinlog.config.keys.key import Effect, Key, ValueForm
from twinlog.config.keys.table import ADMIN, CONNECTOR, CONSUMER, PRODUCER, SECURITY, WORKER_FILE, KeyTable
from twinlog.config.text.values import ValueRefusedError, instead_of, parse_value

RECORDED = Path(__file__).parents[3] / "recorded" / "values.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
TABLES: Mapping[str, KeyTable] = {
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "admin": ADMIN,
    "source": CONNECTOR,
    "checkpoint": CONNECTOR,
    "heartbeat": CONNECTOR,
    "worker": WORKER_FILE,
}
CHECKED_LATER = {
    ValueForm.SERVERS,
    ValueForm.BROKERS,
    ValueForm.LISTENERS,
    ValueForm.TOPIC,
    ValueForm.TOPIC_PART_OR_NOTHING,
}
"""Of these Kafka's definition looks at nothing; the client or the broker refuses what is wrong."""

NO_TOPIC = "no broker creates a topic with it"
FAILS = "MirrorMaker 2 fails as it schedules the work (ScheduledThreadPoolExecutor)"
REFUSED: Mapping[tuple[str, str], str] = {
    ("max.request.size", "0"): "every record would be too large",
    **{("transaction.timeout.ms", value): "no broker takes it" for value in ("-2", "-1", "0")},
    **{
        (name, value): NO_TOPIC
        for name in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
        for name, value in ((f"{name}replication.factor", "-2"), (f"{name}replication.factor", "0"))
    },
    **{
        (f"{name}.interval.seconds", value): FAILS if value == "0" else "longer than a process lives"
        for name in (
            *("refresh.topics", "sync.topic.acls", "sync.topic.configs", "refresh.groups", "sync.group.offsets"),
            *("emit.checkpoints", "emit.heartbeats"),
        )
        for value in ("0", "2147483648")
    },
    **{
        ("inter.worker.key.size", str(size)): "Java makes no key of that size"
        for size in (-2, -1, 0, 1, 2, 5, 6, 9, 10, 22)
    },
    **{("offset.flush.interval.ms", value): FAILS for value in ("-2147483649", "-2", "-1")},
    **{("rest.advertised.port", value): "no port" for value in ("-2", "-1", "2147483647")},
}


def taken(key: Key, value: str) -> bool:
    try:
        parse_value(key, value)
    except ValueRefusedError:
        return False
    return True


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['version']} {row['of']} {row['key']}")
def test_what_kafka_takes_is_taken(row: Mapping[str, object]) -> None:
    of, name, takes = str(row["of"]), str(row["key"]), row["takes"]
    assert isinstance(takes, list)
    key = TABLES[of].find_key(name) or SECURITY.find_key(name)
    if name.startswith("internal."):
        return
    assert key is not None
    if key.effect is not Effect.WORKS or key.form in CHECKED_LATER or name == "connector.client.config.override.policy":
        return
    refused = {(name, value) for value in takes if not taken(key, value)}
    assert refused - REFUSED.keys() == set()


def test_only_what_is_less_safe_is_replaced() -> None:
    replaced = {
        (row["key"], value, other.value)
        for row in ROWS
        for value in row["takes"]
        if (key := TABLES[row["of"]].find_key(row["key"])) is not None and (other := instead_of(key, value)) is not None
    }
    assert replaced == {
        ("acks", "0", "all"),
        ("acks", "1", "all"),
        ("enable.idempotence", "FALSE", "true"),
        *(
            ("max.in.flight.requests.per.connection", number, "5")
            for number in ("6", "9", "10", "22", "1000", "2147483647")
        ),
    }
