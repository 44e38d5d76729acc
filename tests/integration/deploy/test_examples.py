"""The stacks in `examples` as processes of this machine: their own compose files, commands, files and scripts.

Connectors have their intervals of a minute and of twenty seconds, and the failover of seed-000 waits for the two
minutes that its article names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from harness.child import Child
from harness.clients import ClientConfig
from harness.containers.compose import ComposeStack
from harness.wait import wait_for

EXAMPLES = Path(__file__).parents[3] / "examples"
WAIT_S = 120.0
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only address on loopback")
INIT = "init:init-secret"
LINE = re.compile(r"^CreateTime:\d+:Partition:(\d+):Offset:(\d+):(.+?):(.*)$", re.MULTILINE)

READ = (
    "/opt/kafka/bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --whitelist '{topics}' "
    "--consumer.config /opt/kafka/config/client.properties --property print.timestamp=true --property print.key=true "
    "--property key.separator=: --property print.partition=true --property print.offset=true --group my-cg"
)
WRITE = (
    "/opt/kafka/bin/kafka-console-producer.sh --bootstrap-server localhost:9092 --topic test "
    "--producer.config /opt/kafka/config/client.properties --property parse.key=true --property key.separator=:"
)
BOTH_TOPICS = r"^(kafka-1\.)?test$"
FAILOVER_S = 120.0
"""How long the article waits before the group reads on the other cluster, and this test has to."""

LEADER_COMES = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
COORDINATOR_COMES = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}

Place = tuple[str, int]


class Cluster:
    """One broker of a stack, as its clients see it."""

    def __init__(self, stack: ComposeStack, name: str, port: int, login: Mapping[str, str]) -> None:
        self.stack, self.name = stack, name
        self._config: ClientConfig = {
            "bootstrap.servers": f"{stack.addresses[name]}:{port}",
            "log_level": 0,
            **login,
        }
        self.admin = AdminClient(self._config)

    def write(self, *keys: str) -> None:
        """Records in the topic test, from the command line."""
        done = self.stack.run(self.name, ["/bin/sh", "-c", WRITE], "".join(f"{key}:Hello, Kafka!\n" for key in keys))
        assert done.returncode == 0, done.stderr

    def produce(self, topic: str, *keys: str) -> None:
        producer = Producer(self._config)
        for key in keys:
            producer.produce(topic, f"value of {key}", key)
        assert producer.flush(WAIT_S) == 0

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=WAIT_S).topics)

    def ends(self, topic: str, partitions: int) -> dict[Place, int]:
        """End offsets; none while a partition of a new topic has no leader yet."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, one): latest for one in range(partitions)}
        try:
            return {
                (place.topic, place.partition): answer.result(WAIT_S).offset
                for place, answer in self.admin.list_offsets(asked).items()
            }
        except KafkaException as error:
            if error.args[0].code() not in LEADER_COMES:
                raise
            return {}

    def committed(self, group: str, *places: Place) -> dict[Place, int]:
        """What a group has committed for those of these partitions for which it has."""
        consumer = Consumer({**self._config, "group.id": group})
        try:
            found = consumer.committed([TopicPartition(*place) for place in places], timeout=WAIT_S)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_COMES:
                raise
            return {}
        finally:
            consumer.close()
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def commit(self, group: str, place: Place, offset: int) -> None:
        """Commit for a group that has no members, once it has a coordinator."""

        def done() -> bool:
            consumer = Consumer({**self._config, "group.id": group})
            try:
                consumer.commit(offsets=[TopicPartition(*place, offset)], asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_COMES:
                    raise
                return False
            finally:
                consumer.close()
            return self.committed(group, place) == {place: offset}

        wait_for(done, WAIT_S, f"{group} is at {offset} of {place}", every_s=0.5)

    def create(self, topic: str, partitions: int) -> None:
        (answer,) = self.admin.create_topics([NewTopic(topic, partitions, 1)]).values()
        answer.result(WAIT_S)


class ConsoleConsumer:
    """The command line that reads in the group my-cg inside a broker's container, until Ctrl+C."""

    def __init__(self, cluster: Cluster, topics: str, what: str) -> None:
        line = READ.format(topics=topics)
        self._process: Child = cluster.stack.child(cluster.name, ["/bin/sh", "-c", line], what)
        self._cluster = cluster

    def start(self, *needed: Place) -> ConsoleConsumer:
        """Start, and wait until it has a position in all these partitions."""
        self._process.start()

        def there() -> bool:
            self._process.require_alive()
            return set(needed) == set(self._cluster.committed("my-cg", *needed))

        wait_for(there, WAIT_S, f"my-cg has committed for {needed}", every_s=0.2)
        return self

    def wait_for_keys(self, *keys: str) -> None:
        """Wait until it has printed records with all these keys."""
        wait_for(lambda: set(keys) <= set(self.keys), WAIT_S, f"{keys} are printed", every_s=0.2)

    @property
    def keys(self) -> list[str]:
        """Keys of the records that it has printed."""
        return sorted(found[3] for found in LINE.finditer(self._printed))

    @property
    def _printed(self) -> str:
        return self._process.log.read_text(encoding="utf-8")

    def interrupt(self) -> None:
        """Press Ctrl+C, and wait until it has committed and ended."""
        os.killpg(self._process.pid, signal.SIGINT)
        wait_for(lambda: "Processed a total of" in self._printed, WAIT_S, "it has ended")
        self._process.wait(WAIT_S)


def rest(stack: ComposeStack, path: str, user: str = "", config: Mapping[str, str] | None = None) -> Any:
    """An answer of the worker's REST API; with a configuration, to a PUT."""
    url = f"http://{stack.addresses['connect']}:8083{path}"
    request = urllib.request.Request(url, method="GET" if config is None else "PUT")
    if config is not None:
        request.data = json.dumps(config).encode()
        request.add_header("Content-Type", "application/json")
    if user:
        request.add_header("Authorization", f"Basic {b64encode(user.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.load(answer)


def the_other_way(stack: ComposeStack, file: Path) -> dict[str, str]:
    """The configuration of a connector of seed-000 from its second cluster to its first, which is not the worker's."""
    text = stack.mounted("connect", f"/opt/kafka/connector-config/{file.name}").read_text(encoding="utf-8")
    left, right = (stack.addresses[name] for name in ("kafka1", "kafka2"))
    pairs = {left: right, "kafka-1": "kafka-2", "mirrormaker1": "mirrormaker2"}
    pairs |= {there: here for here, there in pairs.items()}
    found = "|".join(rf"{re.escape(one)}\b" for one in pairs)
    config = json.loads(re.sub(found, lambda one: pairs[one.group()], text))
    target = "target.cluster."
    login = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config")
    return {**config, **{f"producer.override.{key}": config[target + key] for key in login}}


def wait_until_running(stack: ComposeStack, names: set[str], user: str = "") -> None:
    """Wait until all these connectors and their tasks run."""
    last: list[Any] = []

    def running() -> bool:
        last[:] = [rest(stack, "/connectors?expand=status", user)]
        states = {name: one["status"] for name, one in last[0].items()}
        parts = [part for one in states.values() for part in (one["connector"], *one["tasks"])]
        return set(states) == names and all(part["state"] == "RUNNING" for part in parts)

    try:
        wait_for(running, WAIT_S, f"{sorted(names)} are running", every_s=0.5)
    except TimeoutError as late:
        raise AssertionError(f"{late}\n{last}\n{stack.log('connect')}") from late


@pytest.fixture
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ComposeStack]:
    """The stack of the example that the test names."""
    with ComposeStack(EXAMPLES / request.param / "docker-compose.yaml", tmp_path) as stack:
        yield stack


@pytest.mark.scenario
@pytest.mark.parametrize("stack", ["seed-000"], indirect=True)
def test_seed_000(stack: ComposeStack) -> None:
    script = "/opt/kafka/custom-scripts/deploy-connectors.sh"
    own = EXAMPLES / "seed-000/connect/scripts/deploy-connectors.sh"
    assert stack.mounted("connect", script).read_bytes() == own.read_bytes()
    wait_for(lambda: "[INFO] All connectors are deployed" in stack.log("connect"), WAIT_S, "the script has ended")
    names = {f"mirror-{kind}-connector" for kind in ("source", "checkpoint", "heartbeat")}
    wait_until_running(stack, names, "kafkaui:kafkaui-secret")
    for user in ("", "init:wrong"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            rest(stack, "/connectors", user)

    text = (EXAMPLES / "seed-000/kafka/client.properties").read_text(encoding="utf-8")
    users = dict(re.findall(r'(\w+)="([^"]*)"', javaproperties.loads(text)["sasl.jaas.config"]))
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": users["username"],
        "sasl.password": users["password"],
    }
    near, far = (Cluster(stack, name, 9092, login) for name in ("kafka1", "kafka2"))
    copies, originals = ((("kafka-1.test", 0), ("kafka-1.test", 1)), (("test", 0), ("test", 1)))
    wait_for(lambda: "kafka-1.test" in far.topics(), WAIT_S, "the remote topic is there")

    # Records of the first cluster are read on the second, in kafka-1.test.
    consumer = ConsoleConsumer(far, BOTH_TOPICS, "first-reading").start(*copies, *originals)
    near.write("hello")
    consumer.wait_for_keys("hello")
    consumer.interrupt()
    assert consumer.keys == ["hello"]

    # The group reads twenty records on the first cluster, and then no more: seven come that it has not read.
    consumer = ConsoleConsumer(near, "test", "normal-work").start(*originals)
    read = [f"read-{number:02}" for number in range(20)]
    near.write(*read)
    consumer.wait_for_keys(*read)
    consumer.interrupt()
    assert consumer.keys == read
    reached = near.committed("my-cg", *originals)
    assert reached == near.ends("test", 2)
    unread = [f"unread-{number}" for number in range(7)]
    near.write(*unread)

    # Two minutes later it continues on the second cluster after what it has read on the first.
    time.sleep(FAILOVER_S)
    consumer = ConsoleConsumer(far, BOTH_TOPICS, "after-the-failover").start(*copies)
    consumer.wait_for_keys(*unread)
    consumer.interrupt()
    assert consumer.keys == unread

    # The same connectors the other way, beside these.
    for file in sorted((EXAMPLES / "seed-000/connect/connectors").glob("*.json")):
        rest(stack, f"/connectors/back-{file.stem}/config", INIT, the_other_way(stack, file))
    wait_until_running(stack, names | {f"back-{name}" for name in names}, INIT)
    far.produce("test", "back")
    wait_for(lambda: "kafka-2.test" in near.topics(), WAIT_S, "the remote topic is there", every_s=0.5)
    written = sum(far.ends("test", 2).values())
    wait_for(lambda: sum(near.ends("kafka-2.test", 2).values()) == written == 1, WAIT_S, "it is copied", every_s=0.5)
    assert "Traceback" not in stack.log("connect")


@pytest.mark.parametrize("stack", ["seed-002"], indirect=True)
def test_seed_002(stack: ComposeStack) -> None:
    near, far = (Cluster(stack, name, 29092, {}) for name in ("source-kafka", "target-kafka"))
    near.create("orders", 1)
    near.produce("orders", *map(str, range(10)))
    place = ("orders", 0)
    near.commit("billing", place, 4)
    wait_for(lambda: "[INFO] All connectors are there" in stack.log("connect"), WAIT_S, "the script has ended")
    names = {"mm2-msc", "mm2-cpc", "mm2-hbc"}
    wait_until_running(stack, names)

    def copied() -> bool:
        return "orders" in far.topics() and far.ends("orders", 1) == {place: 10}

    wait_for(copied, WAIT_S, "ten records are copied", every_s=0.5)
    wait_for(lambda: far.committed("billing", place) == {place: 4}, WAIT_S, "the group is translated", every_s=0.5)
    assert {"heartbeats", "mm2-offset-syncs.sourcemsc.internal", "sourcemsc.checkpoints.internal"} <= far.topics()

    # Once more it changes nothing.
    again = stack.run("connect", ["/opt/kafka/custom-scripts/create-connectors.sh"])
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("is there already") == 3
    assert set(rest(stack, "/connectors")) == names
    assert "Traceback" not in stack.log("connect")
