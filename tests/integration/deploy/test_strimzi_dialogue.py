"""The dialogue of Strimzi's operator with a worker has the answers of Kafka's worker; a swap of the image, and back."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.containers.strimzi.operator import Desired
from harness.containers.strimzi.release import RELEASES, Cluster, Login, Release, Resource
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.deploy.strimzi_pods import (
    CHECKPOINT,
    CONNECTORS,
    DEADLINE_S,
    SOURCE,
    STORAGE,
    Pods,
    PodWorker,
    desired,
)

pytestmark = pytest.mark.scenario


def plain_resource(
    source: KafkaCluster, target: KafkaCluster, alias: str, topic: str, group: str, *, logins: bool
) -> Resource:
    """A mirror of a topic, without TLS; with `logins` both clusters want a password."""
    near = Cluster(alias, source.bootstrap)
    far = Cluster("t", target.bootstrap, config=STORAGE)
    if logins:
        near = replace(near, bootstrap=source.sasl_bootstrap, login=Login("plain", "mirrormaker", "source"))
        far = replace(far, bootstrap=target.sasl_bootstrap, login=Login("plain", "mirrormaker", "target"))
    return Resource(
        "mm2",
        far,
        near,
        group,
        CONNECTORS,
        topics=topic,
        groups=f"{topic}-reader",
        tasks_max=1,
    )


def passwords(source: KafkaCluster, target: KafkaCluster) -> dict[str, dict[str, str]]:
    return {
        "source": {"password": source.users["mirrormaker"]},
        "target": {"password": target.users["mirrormaker"]},
    }


@dataclass
class Dialogue:
    """The operator's life with a resource: each step ends in a settled state, whose answers are kept."""

    worker: PodWorker
    release: Release
    resource: Resource
    source: KafkaCluster
    target: KafkaCluster
    settled: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        flow = f"{self.resource.source.alias}->t"
        self.mirror, self.checkpoint = f"{flow}.{SOURCE}", f"{flow}.{CHECKPOINT}"

    @property
    def wanted(self) -> dict[str, Desired]:
        return desired(self.release, self.resource, self.worker.pod)

    def keep(self, step: str) -> None:
        """Keep the answers about both connectors; the content of tasks, and the times of checkpoints, are their own."""
        self.worker.wait_for_state(self.checkpoint, "RUNNING", 1)
        asked = [(name, what) for name in (self.mirror, self.checkpoint) for what in ("config", "status", "tasks")]
        for name, what in [*asked, (self.mirror, "offsets")]:
            wait_for(partial(self.is_settled, name), DEADLINE_S, f"{name} is settled")
            status, answer = self.worker.operator.ask("GET", f"/connectors/{name}/{what}")
            shown = [one["id"] for one in answer] if what == "tasks" else answer
            self.settled.append((f"{step}: {name} {what} {status}", shown))

    def is_settled(self, name: str) -> bool:
        """Whether the connector is outside of a rebalance and of a restart, which last for a moment."""
        text = json.dumps(self.worker.operator.ask("GET", f"/connectors/{name}/status")[1])
        return "UNASSIGNED" not in text and "RESTARTING" not in text

    def walk(self) -> None:
        """Create, change, pause, resume, stop, list, alter and reset offsets, restart, delete."""
        operator, wanted = self.worker.operator, self.wanted
        operator.reconcile(wanted)
        self.worker.wait_for_state(self.mirror, "RUNNING", 1)
        self.worker.wait_for_state(self.checkpoint, "RUNNING", 1)
        self.wait_until_stored(20)
        self.keep("created")
        operator.reconcile(wanted)
        self.step("paused", "PAUSED", state="paused")
        self.step("resumed", "RUNNING", state="running")
        self.resource = replace(self.resource, tasks_max=2)
        operator.reconcile(self.wanted)
        self.worker.wait_for_state(self.mirror, "RUNNING", 2)
        self.keep("changed")
        self.step("restarted", "RUNNING", tasks=2, restart="includeTasks", restart_task=None)
        self.step("task restarted", "RUNNING", tasks=2, restart_task=0)
        self.step("stopped", "STOPPED", tasks=0, state="stopped")
        self.step("listed", "STOPPED", tasks=0, state="stopped", offsets="list")
        listed = operator.listed[self.mirror]
        self.step("altered", "STOPPED", tasks=0, state="stopped", offsets="alter", alter_to=listed)
        self.step("reset", "STOPPED", tasks=0, state="stopped", offsets="reset")
        self.step("altered back", "STOPPED", tasks=0, state="stopped", offsets="alter", alter_to=listed)
        self.step("started again", "RUNNING", tasks=2, state="running")
        only = {self.mirror: self.wanted[self.mirror]}
        operator.reconcile(only)
        self.settled.append(("deleted", operator.expect("GET", "/connectors", 200)))
        plugins = operator.expect("GET", "/connector-plugins", 200)
        names = {one["class"].rpartition(".")[2] for one in plugins if one["type"] == "source"}
        self.settled.append(("plugins", {SOURCE, CHECKPOINT} <= names))
        changed = operator.expect("PUT", "/admin/loggers/org.apache.kafka.connect?scope=cluster", 200, 204, body=DEBUG)
        self.settled.append(("logger", changed))

    def step(self, name: str, becomes: str, tasks: int = 1, **more: Any) -> None:
        """Reconcile with another state or annotation of the source connector, and wait until it is settled."""
        wanted = self.wanted
        wanted[self.mirror] = replace(wanted[self.mirror], **more)
        self.worker.operator.reconcile(wanted)
        self.worker.wait_for_state(self.mirror, becomes, tasks)
        self.keep(name)

    def wait_until_stored(self, count: int) -> None:
        """Wait until the position of the source connector is at its `count` records."""

        def stored() -> bool:
            offsets = self.worker.operator.ask("GET", f"/connectors/{self.mirror}/offsets")[1]["offsets"]
            found = [int(one["offset"]["offset"]) + 1 for one in offsets if "topic" in one["partition"]]
            return sum(found) == count

        wait_for(stored, DEADLINE_S, f"{count} records are copied, and their position is stored", every_s=0.5)


DEBUG = {"level": "DEBUG"}


def normal(answer: Any, alias: str, root: Path, port: int) -> Any:
    """An answer without the differences between two workers and two runs: addresses, aliases, folders, traces."""
    text = json.dumps(answer, sort_keys=True).replace(str(root), "ROOT").replace(alias, "ALIAS")
    text = text.replace(f"127.0.0.1:{port}", "WORKER")
    found = json.loads(text)
    if isinstance(found, dict):
        found.pop("trace", None)
        if isinstance(found.get("offsets"), list):
            found["offsets"].sort(key=json.dumps)
    if isinstance(found, list):
        found.sort(key=json.dumps)
    return found


@pytest.mark.parametrize("release", [pytest.param("0.51", marks=pytest.mark.scenario), "1.0", "1.2"])
def test_the_operators_dialogue_has_the_answers_of_kafkas_worker(
    release: str,
    clusters: tuple[KafkaCluster, KafkaCluster],
    pods: Pods,
    new_name: Callable[[str], str],
) -> None:
    source, target = clusters
    dialogues = []
    for kafkas in (True, False):
        alias, topic = new_name("s"), new_name("t")
        create_topic(source, topic, 2)
        commit_offsets(source, {f"{topic}-reader": {(topic, 1): 0}})
        for partition in (0, 1):
            produce(source, topic, numbered(10), partition=partition)
        resource = plain_resource(source, target, alias, topic, f"{alias}-group", logins=True)
        # Passwords are mounted in both releases here, because Kafka's worker lacks the class that asks Kubernetes.
        files = replace(RELEASES[release], mounts=True, script=RELEASES["1.0"].script)
        worker = pods.make(files, resource, passwords(source, target), kafkas=kafkas).start()
        dialogue = Dialogue(worker, files, resource, source, target)
        dialogue.walk()
        # Kafka's worker may take minutes to end after its connectors were deleted.
        ended = worker.pod.process.terminate(60)
        assert ended or kafkas
        names = (alias, worker.pod.root, worker.port)
        dialogues.append(
            [
                (normal(what, *names), normal(answer, *names).replace(topic, "TOPIC"))
                if isinstance(answer, str)
                else (normal(what, *names), json.loads(json.dumps(normal(answer, *names)).replace(topic, "TOPIC")))
                for what, answer in dialogue.settled
            ]
        )
    theirs, ours = dialogues
    assert [what for what, _ in ours] == [what for what, _ in theirs]
    differ = [f"{what}\n  {a}\n  {b}" for (what, a), (_, b) in zip(theirs, ours, strict=True) if a != b]
    assert not differ, "\n" + "\n".join(differ)


# The swap of the image, and back.


class Producer:
    """Produces a record at a time into both partitions of a topic, until it is stopped."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._stop = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            for partition in (0, 1):
                produce(self._cluster, self._topic, numbered(1, start=self.count), partition=partition)
            self.count += 1

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def waits_for_group(worker: PodWorker) -> bool:
    code, answer = worker.operator.ask("GET", "/health")
    return code == 200 and "its members are of another kind" in answer["message"]


def test_the_image_of_a_running_mirror_is_swapped_and_swapped_back(
    clusters: tuple[KafkaCluster, KafkaCluster], pods: Pods, new_name: Callable[[str], str]
) -> None:
    """Two pods, replaced one after the other as the operator does it; then back by way of `replicas: 0`."""
    source, target = clusters
    alias, topic = new_name("s"), new_name("t")
    remote, reader = f"{alias}.{topic}", f"{topic}-reader"
    create_topic(source, topic, 2)
    commit_offsets(source, {reader: {(topic, 1): 0}})
    release = replace(RELEASES["1.2"], mounts=True, script=RELEASES["1.0"].script)
    # The containers have folders of their own here, so configurations with paths would differ.
    resource = plain_resource(source, target, alias, topic, f"{alias}-group", logins=False)

    def pod(*, kafkas: bool) -> PodWorker:
        more = {"offset.flush.interval.ms": "1000"}
        return pods.make(release, resource, {}, kafkas=kafkas, more=more)

    def copied(partition: int) -> list[int]:
        return [int(record.value or b"") for record in consume(target, remote, partitions=[partition])]

    def grows(partition: int, count: int) -> bool:
        return len(copied(partition)) > count

    def continues(worker: PodWorker, producer: Producer) -> None:
        """The operator has nothing to change, and records of now arrive."""
        worker.operator.reconcile(desired(release, resource, worker.pod))
        worker.wait_for_state(f"{alias}->t.{SOURCE}", "RUNNING", 1)
        worker.wait_for_state(f"{alias}->t.{CHECKPOINT}", "RUNNING", 1)
        count = producer.count
        for one in (0, 1):
            wait_for(partial(grows, one, count), DEADLINE_S, "copying continues", every_s=0.5)

    with ExitStack() as running:
        producer = running.enter_context(Producer(source, topic))
        theirs = [pod(kafkas=True).start(), pod(kafkas=True).start()]
        theirs[0].operator.reconcile(desired(release, resource, theirs[0].pod))
        continues(theirs[0], producer)

        # spec.image: the operator replaces a pod, waits until it is ready, and replaces the next.
        ours = []
        for old in theirs:
            assert old.pod.process.terminate(60)
            ours.append(pod(kafkas=False).start())
            if len(ours) == 1:
                # Ready for the operator, so that the operator replaces the next pod.
                wait_for(partial(waits_for_group, ours[0]), DEADLINE_S, "the first pod waits for Kafka's worker to end")
        continues(ours[1], producer)
        written = [one for worker in ours for one in worker.operator.log if one.method != "GET"]
        assert not written

        # And back, with replicas: 0 between.
        for old in ours:
            assert old.pod.process.terminate(60)
        back = pod(kafkas=True).start()
        continues(back, producer)
        commit_offsets(source, {reader: {(topic, 1): producer.count}})

    def all_there() -> bool:
        return all(len(copied(part)) >= producer.count for part in (0, 1))

    wait_for(all_there, DEADLINE_S, "everything is copied", every_s=0.5)
    for part in (0, 1):
        again = Counter(copied(part))
        assert sorted(again) == list(range(producer.count)), "records were skipped"
        assert set(again.values()) == {1}, {number: count for number, count in again.items() if count > 1}
        assert copied(part) == sorted(copied(part))

    def translated() -> bool:
        return (remote, 1) in group_offsets(target, [reader]).get(reader, {})

    wait_for(translated, DEADLINE_S, "the group is translated")
    assert back.pod.process.terminate(60)
