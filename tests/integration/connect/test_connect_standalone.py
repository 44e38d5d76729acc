"""A standalone worker of Kafka Connect: connectors from files, and a file of offsets that Kafka's own worker knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.broker import to_properties
from harness.cluster import KafkaCluster
from harness.connect.worker import ConnectWorker as KafkasWorker
from harness.consume import consume
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of
from twinlog.connect.storage.offset_file import read_java_map

COPIED_S = 120.0


@pytest.fixture
def port() -> Iterator[int]:
    claimed = claim_port()
    yield claimed
    release_port(claimed)


def stored(worker: ConnectWorker) -> list[Any]:
    """The offsets in the worker's file: the connector, the partition, and the offset."""
    found = read_java_map(worker.offset_file.read_bytes())
    return [[*json.loads(key), None if value is None else json.loads(value)] for key, value in found.items()]


def copied(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Wait for so many records; one more would be there twice."""
    wait_for(
        lambda: topic in topics(cluster) and len(consume(cluster, topic)) >= count,
        COPIED_S,
        f"{topic} has {count} records",
    )
    assert len(consume(cluster, topic)) == count


@pytest.mark.parity
def test_a_standalone_worker_and_kafkas_own_take_turns(
    clusters: tuple[KafkaCluster, KafkaCluster],
    topic_name: str,
    new_name: Callable[[str], str],
    tmp_path: Path,
    port: int,
) -> None:
    source, target = clusters
    alias, name = new_name("s"), new_name("c")
    remote = f"{alias}.{topic_name}"
    create_topic(source, topic_name)
    produce(source, topic_name, numbered(100))
    config = connector("Source", source, target, f"{alias}->t", topics=topic_name)
    place = {"cluster": alias, "partition": 0, "topic": topic_name}
    copies, beats = tmp_path / "source.properties", tmp_path / "heartbeat.json"
    copies.write_text(to_properties({**config, "name": name}))
    beating = {"name": f"{name}-beats", "config": connector("Heartbeat", source, target, f"{alias}->t")}
    beats.write_text(json.dumps({**beating, "initial_state": "stopped"}))
    here = ConnectWorker(tmp_path, target, None, {"offset.flush.interval.ms": "500"}, [copies, beats])
    try:
        # As its files say, and over the REST API.
        here.start()
        here.wait_for_state(name, "RUNNING", tasks=1)
        here.wait_for_state(f"{name}-beats", "STOPPED", tasks=0)
        copied(target, remote, 100)
        wait_for(lambda: [name, place, {"offset": 99}] in stored(here), COPIED_S, "the file has the offset")
        assert here.ask("GET", f"{path_of(name)}/offsets") == (
            200,
            {"offsets": [{"partition": place, "offset": {"offset": 99}}]},
        )
        assert here.ask("PUT", f"{path_of(name)}-beats/resume")[0] == 202
        here.wait_for_state(f"{name}-beats", "RUNNING", tasks=1)
        assert here.ask("DELETE", f"{path_of(name)}-beats")[0] == 204
        assert here.ask("GET", "/connectors") == (200, [name])
        assert here.ask("PUT", f"{path_of(name)}/fence")[0] == 500

        # An offset that is set back is copied again; what was created over REST ends with the worker.
        assert here.ask("PUT", f"{path_of(name)}/stop")[0] == 204
        here.wait_for_state(name, "STOPPED", tasks=0)
        back = {"offsets": [{"partition": place, "offset": {"offset": 89}}]}
        assert here.ask("PATCH", f"{path_of(name)}/offsets", back)[0] == 200
        assert [name, place, {"offset": 89}] in stored(here)
        assert here.process.terminate()

        # Kafka's own worker goes on where the file says, and we go on after it.
        with KafkasWorker("standalone", work_dir=tmp_path / "kafkas", connectors=[copies]) as theirs:
            theirs.start(
                to_properties(
                    {
                        **target.java_settings(),
                        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                        "listeners": f"http://127.0.0.1:{port}",
                        "offset.storage.file.filename": str(here.offset_file),
                        "offset.flush.interval.ms": "500",
                        "plugin.discovery": "service_load",
                    }
                )
            )
            copied(target, remote, 110)
            wait_for(lambda: [name, place, {"offset": 99}] in stored(here), COPIED_S, "Kafka's worker stored it")
            assert theirs.stop()
        produce(source, topic_name, numbered(5, start=100))
        here.start()
        copied(target, remote, 115)
        assert "1 positions are those of" in here.log
        assert here.process.terminate()
        assert [name, place, {"offset": 104}] in stored(here)
        assert "Traceback" not in here.log
    finally:
        here.close()
