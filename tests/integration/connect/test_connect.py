"""A worker of Kafka Connect: MirrorMaker 2's connectors over its REST API, alone and with other workers."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import Place, commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of

COPIED_S = 120.0


@pytest.fixture
def workers(new_name: Callable[[str], str]) -> str:
    """The name of a group of workers."""
    return new_name("workers")


@pytest.fixture
def worker(
    clusters: tuple[KafkaCluster, KafkaCluster], workers: str, tmp_path: Path
) -> Iterator[Callable[[], ConnectWorker]]:
    """Makes workers of the group, on the target cluster."""
    made: list[ConnectWorker] = []

    def make() -> ConnectWorker:
        made.append(ConnectWorker(tmp_path / f"worker-{len(made)}", clusters[1], workers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def copied(cluster: KafkaCluster, topic: str, count: int) -> None:
    wait_for(
        lambda: topic in topics(cluster) and len(consume(cluster, topic)) == count,
        COPIED_S,
        f"{topic} has {count} records",
    )


def shown(worker: ConnectWorker, names: Mapping[str, str]) -> None:
    """The console of the worker has the connectors of its API and their flows."""
    _, connectors = worker.ask("GET", "/ui/api/connectors")
    assert {row["name"]: row["state"] for row in connectors["connectors"]["rows"]} == dict.fromkeys(
        names.values(), "RUNNING"
    )

    def copies() -> bool:
        _, overview = worker.ask("GET", "/ui/api/overview")
        states = {row["flow"]: row["state"] for row in overview["flows"]}
        return states.get(names["Source"]) == "running"

    wait_for(copies, COPIED_S, "the console shows the flow as running", every_s=1.0)


def standing(cluster: KafkaCluster, group: str) -> dict[Place, int]:
    """Where a group goes on."""
    return {place: committed.offset for place, committed in group_offsets(cluster, [group]).get(group, {}).items()}


def is_of(flow: str, key: bytes) -> bool:
    """Whether a heartbeat is one of a flow a->b."""
    return flow.partition("->")[0].encode() in key


def test_the_three_connectors(
    clusters: tuple[KafkaCluster, KafkaCluster],
    worker: Callable[[], ConnectWorker],
    workers: str,
    topic_name: str,
    new_name: Callable[[str], str],
) -> None:
    source, target = clusters
    alias, group = new_name("s"), new_name("g")
    flow = f"{alias}->t"
    remote = f"{alias}.{topic_name}"
    create_topic(source, topic_name, 2)
    produce(source, topic_name, numbered(100), partition=1)
    commit_offsets(source, {group: {(topic_name, 1): 40}})
    way_back = WayBack(clusters, new_name)
    way_back.keep_position(workers)
    here = worker().start()
    names = {kind: f"{flow}.{kind}" for kind in ("Source", "Checkpoint", "Heartbeat")}
    refuses_a_wrong_connector(here, connector("Source", source, target, flow))
    for kind, name in names.items():
        config = connector(kind, source, target, flow, topics=topic_name, groups=group, tasks_max="4")
        if kind == "Source":
            config["offsets.storage.topic"] = f"{alias}-positions"
        if kind == "Checkpoint":
            config["sync.group.offsets.enabled"] = "true"
            config["sync.group.offsets.interval.seconds"] = "1"
        status, answer = here.put(name, config)
        assert (status, answer["name"], answer["type"]) == (201, name, "source")
        assert answer["config"] == {**config, "name": name}
    here.wait_for_state(names["Source"], "RUNNING", tasks=2)
    here.wait_for_state(names["Checkpoint"], "RUNNING", tasks=1)
    here.wait_for_state(names["Heartbeat"], "RUNNING", tasks=1)
    copied(target, remote, 100)
    wait_for(lambda: standing(target, group) == {(remote, 1): 40}, COPIED_S, "the group was translated", every_s=0.5)
    assert "heartbeats" in topics(target)
    measured(here, alias, remote, group)
    shown(here, names)
    source_path = path_of(names["Source"])

    # Stopped, it has no tasks, and its offsets can be deleted; then it begins anew.
    assert here.ask("PATCH", f"{source_path}/offsets", {"offsets": []})[0] == 400
    assert here.ask("DELETE", f"{source_path}/offsets")[0] == 400
    assert here.ask("PUT", f"{source_path}/stop")[0] == 204
    assert here.wait_for_state(names["Source"], "STOPPED")["tasks"] == []
    _, answer = here.ask("GET", f"{source_path}/offsets")
    place = {"cluster": alias, "partition": 1, "topic": topic_name}
    assert {"partition": place, "offset": {"offset": 99}} in answer["offsets"]
    back = {"offsets": [{"partition": place, "offset": {"offset": 89}}]}
    assert here.ask("PATCH", f"{source_path}/offsets", back)[0] == 200
    assert here.ask("PUT", f"{source_path}/resume")[0] == 202
    here.wait_for_state(names["Source"], "RUNNING", tasks=2)
    copied(target, remote, 110)

    # Another configuration takes effect in the running worker; a removed connector is gone.
    more = f"{topic_name}-more"
    create_topic(source, more)
    produce(source, more, numbered(10))
    own = {"offsets_storage_topic": f"{alias}-positions"}
    config = connector("Source", source, target, flow, topics=f"{topic_name}.*", **own)
    assert here.put(names["Source"], config)[0] == 200
    copied(target, f"{alias}.{more}", 10)
    assert here.ask("DELETE", path_of(names["Heartbeat"]))[0] == 204
    assert here.ask("GET", path_of(names["Heartbeat"]))[0] == 404
    assert sorted(here.ask("GET", "/connectors")[1]) == sorted([names["Source"], names["Checkpoint"]])

    way_back.goes_on_and_begins_anew(here)
    assert "Traceback" not in here.log


class WayBack:
    """A connector that copies from the cluster of its worker to the other one."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]) -> None:
        self.source, self.target = reversed(clusters)
        self.topic, self.alias = create_topic(self.source, new_name("back")), new_name("b")
        self.flow = f"{self.alias}->s"
        self.place = {"cluster": self.alias, "partition": 0, "topic": self.topic}
        produce(self.source, self.topic, numbered(100))

    def keep_position(self, workers: str) -> None:
        """As Kafka's worker keeps it: on its own cluster."""
        kept = create_topic(self.source, f"{workers}-offsets", config={"cleanup.policy": "compact"})
        key = json.dumps([self.flow, self.place], separators=(",", ":")).encode()
        produce(self.source, kept, [NewRecord(b'{"offset":39}', key)])

    def goes_on_and_begins_anew(self, worker: ConnectWorker) -> None:
        config, path = connector("Source", self.source, self.target, self.flow, topics=self.topic), path_of(self.flow)
        assert worker.put(self.flow, config)[0] == 201
        copied(self.target, f"{self.alias}.{self.topic}", 60)
        assert worker.ask("PUT", f"{path}/stop")[0] == 204
        worker.wait_for_state(self.flow, "STOPPED")
        offsets = {"offsets": [{"partition": self.place, "offset": {"offset": 99}}]}
        assert worker.ask("GET", f"{path}/offsets") == (200, offsets)
        assert worker.ask("DELETE", f"{path}/offsets")[0] == 200
        assert worker.ask("GET", f"{path}/offsets") == (200, {"offsets": []})
        assert worker.ask("PUT", f"{path}/resume")[0] == 202
        copied(self.target, f"{self.alias}.{self.topic}", 160)


def measured(worker: ConnectWorker, alias: str, remote: str, group: str) -> None:
    """The worker measures its three connectors, and 100 records in a partition."""
    place = f"source={alias},target=t,"
    here = f"topic={remote},partition=1"

    def all_counted() -> bool:
        beans = worker.ask("GET", "/metrics.json")[1]["value"]
        mirror = beans.get(f"kafka.connect.mirror:type=MirrorSourceConnector,{place}{here}", {})
        checkpoint = beans.get(f"kafka.connect.mirror:type=MirrorCheckpointConnector,{place}group={group},{here}", {})
        own = beans["kafka.connect:type=connect-worker-metrics"]
        counts = mirror.get("record-count"), own["connector-count"], own["task-count"]
        return counts == (100, 3, 4) and checkpoint.get("checkpoint-latency-ms", -1) >= 0

    wait_for(all_counted, COPIED_S, "everything is measured", every_s=0.5)


def refuses_a_wrong_connector(worker: ConnectWorker, config: Mapping[str, str]) -> None:
    """It is told what is wrong, and leaves nothing."""
    status, answer = worker.put("c", {**config, "tasks.max": "many"})
    assert status == 400
    assert "contains the following 1 error(s)" in answer["message"]
    assert "tasks.max" in answer["message"]
    assert worker.put("c", {**config, "connector.class": "org.example.JdbcSource"})[0] == 400
    assert worker.ask("GET", "/connectors") == (200, [])
    assert worker.ask("GET", "/connectors/c/status")[0] == 404


def test_workers_share_connectors_and_take_over(
    clusters: tuple[KafkaCluster, KafkaCluster],
    worker: Callable[[], ConnectWorker],
    new_name: Callable[[str], str],
) -> None:
    source, target = clusters
    first, second = worker().start(), worker().start()
    flows = {f"c{number}": f"{new_name('s')}->t" for number in range(4)}
    for name, flow in flows.items():
        # Whichever is asked, the leader writes.
        asked = second if int(name[1:]) % 2 else first
        config = connector("Heartbeat", source, target, flow, emit_heartbeats_interval_seconds="1")
        assert asked.put(name, config)[0] == 201
    workers = {one.url.removeprefix("http://"): one for one in (first, second)}

    def owners() -> dict[str, str]:
        asked = first if first.process.alive else second
        return {name: asked.wait_for_state(name, "RUNNING", tasks=1)["connector"]["worker_id"] for name in flows}

    def shared() -> bool:
        found = list(owners().values())
        return all(found.count(one) == 2 for one in workers)

    wait_for(shared, COPIED_S, "each worker runs two connectors")
    everywhere = sorted(flows)
    wait_for(lambda: sorted(second.ask("GET", "/connectors")[1]) == everywhere, COPIED_S, "each worker knows them all")

    # The leader writes the tasks of what another worker runs.
    def task_classes() -> set[str]:
        found = [first.ask("GET", f"{path_of(name)}/tasks")[1] for name in flows]
        return {tasks[0]["config"]["task.class"] if tasks else "" for tasks in found}

    expected = {"org.apache.kafka.connect.mirror.MirrorHeartbeatTask"}
    wait_for(lambda: task_classes() == expected, COPIED_S, "every connector has its task")

    # The leader stops in order, and no request is lost meanwhile, whoever is the leader when it comes.
    stopping = threading.Thread(target=first.process.terminate)
    stopping.start()
    count = 0
    while stopping.is_alive() or count < 4:
        name = f"c{count % 4}"
        config = connector("Heartbeat", source, target, flows[name], emit_heartbeats_interval_seconds=str(count + 1))
        status, answer = second.put(name, config)
        assert (status, answer) == (200, answer)
        count += 1
    stopping.join()
    alone = {second.url.removeprefix("http://")}
    wait_for(lambda: set(owners().values()) == alone, COPIED_S, "the worker that is left runs all")
    first.start()
    wait_for(shared, COPIED_S, "each worker runs two connectors again")
    left = first.url.removeprefix("http://")
    second.process.kill()
    wait_for(lambda: set(owners().values()) == {left}, COPIED_S, "the other worker runs all")
    for flow in flows.values():
        beats = [record.value or b"" for record in consume(target, "heartbeats") if is_of(flow, record.key or b"")]
        sent = [struct.unpack_from(">q", beat, 2)[0] for beat in beats]
        assert len(sent) > 1
        assert sent == sorted(sent)
    assert first.ask("DELETE", path_of("c0"))[0] == 204
    assert sorted(first.ask("GET", "/connectors")[1]) == ["c1", "c2", "c3"]
