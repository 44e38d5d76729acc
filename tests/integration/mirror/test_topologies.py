"""Flows between three clusters: where records arrive, under which names, and that they never come back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer

from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.consume import consume_topics
from harness.produce import NewRecord, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.running import RunTwinlog
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import FlowState

WEST, EAST, NORTH = ALIASES = ("west-1", "east-1", "north-1")
ARRIVE_S = 180.0

Clusters = dict[str, KafkaCluster]
Contents = dict[str, list[bytes | None]]


@pytest.fixture(scope="module")
def three() -> Iterator[Clusters]:
    """One cluster in each of three data centres."""
    found = {alias: KafkaCluster(alias, heap="320m", sasl=False) for alias in ALIASES}
    try:
        for cluster in found.values():
            cluster.start_async()
        for cluster in found.values():
            cluster.wait_ready()
        yield found
    finally:
        for cluster in found.values():
            cluster.close()


def made_in(alias: str, topic: str, numbers: range) -> list[NewRecord]:
    """Records that hold where they were made and in which order."""
    return [NewRecord(f"{alias} {topic} {number}".encode()) for number in numbers]


def values(alias: str, topic: str, count: int) -> list[bytes | None]:
    return [record.value for record in made_in(alias, topic, range(count))]


def contents(cluster: KafkaCluster, piece: str) -> Contents:
    """The values in each topic whose name has a piece, in order."""
    names = [name for name in topics(cluster) if piece in name]
    return {name: [one.value for one in records] for name, records in consume_topics(cluster, names).items()}


def arrive(three: Clusters, piece: str, expected: dict[str, Contents], check: Callable[[], None]) -> None:
    """Wait until each cluster has just these records under just these names."""

    def there() -> bool:
        check()
        return all(contents(three[alias], piece) == wanted for alias, wanted in expected.items())

    try:
        wait_for(there, ARRIVE_S, "everything has arrived")
    except TimeoutError:
        assert {alias: contents(three[alias], piece) for alias in expected} == expected


def subscribed(cluster: KafkaCluster, pattern: str, group: str, count: int) -> list[bytes | None]:
    """What a consumer group gets that subscribes to a pattern: `count` records, and what follows within a second."""
    consumer = Consumer(
        {**cluster.client_config(), "group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50}
    )
    try:
        consumer.subscribe([pattern])
        found: list[bytes | None] = []
        deadline = time.monotonic() + ARRIVE_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None
                found.append(message.value())
                if len(found) == count:
                    deadline = min(deadline, time.monotonic() + 1.0)
        return found
    finally:
        consumer.close()


@pytest.mark.scenario
def test_three_data_centres_that_mirror_each_other(
    three: Clusters, run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    """Every cluster has the topics of all, once from where they were made and once over the third; none comes back."""
    topic = new_name("t")
    lines = [f"clusters: {', '.join(ALIASES)}"]
    lines += [f"{alias}.bootstrap.servers = {cluster.bootstrap}" for alias, cluster in three.items()]
    # What differs from an example for large clusters: one broker each, and a test that does not want to wait.
    lines += [f"{alias}.offset.storage.replication.factor = 1" for alias in ALIASES]
    lines += [f"{alias}.offset.storage.partitions = 1" for alias in ALIASES]
    lines += [f"{key} = {value}" for key, value in CONNECTORS_ONE_REPLICA.items()]
    lines += ["refresh.topics.interval.seconds = 1", f"topics = .*{topic}"]
    lines += [f"{one}->{other}.enabled = true" for one in ALIASES for other in ALIASES if one != other]
    for alias, cluster in three.items():
        create_topic(cluster, topic)
        produce(cluster, topic, made_in(alias, topic, range(20)))

    process = run_twinlog(", ".join(ALIASES), "\n".join(lines[1:]) + "\n")

    def expected(count: int) -> dict[str, Contents]:
        found = {}
        for here in ALIASES:
            first, second = (alias for alias in ALIASES if alias != here)
            found[here] = {
                topic: values(here, topic, count),
                f"{first}.{topic}": values(first, topic, count),
                f"{second}.{topic}": values(second, topic, count),
                f"{first}.{second}.{topic}": values(second, topic, count),
                f"{second}.{first}.{topic}": values(first, topic, count),
            }
        return found

    def running() -> None:
        assert process.alive, process.log

    arrive(three, topic, expected(20), running)
    for alias, cluster in three.items():
        produce(cluster, topic, made_in(alias, topic, range(20, 30)))
    arrive(three, topic, expected(30), running)
    # Heartbeats show every way: from one cluster straight, and over the other.
    for here in ALIASES:
        first, second = (alias for alias in ALIASES if alias != here)
        ways = {f"{first}.heartbeats", f"{second}.heartbeats"}
        ways |= {f"{first}.{second}.heartbeats", f"{second}.{first}.heartbeats"}
        wait_for(
            lambda here=here, ways=ways: ways <= set(topics(three[here])),  # type: ignore[misc]
            ARRIVE_S,
            f"heartbeats of all flows are on {here}",
        )
        assert not any(f"{here}." in name for name in topics(three[here]) if name.endswith("heartbeats"))
    for here in ALIASES:
        got = subscribed(three[here], rf"^((west|east|north)-1\.)?{re.escape(topic)}$", new_name("g"), 90)
        assert sorted(got) == sorted(value for alias in ALIASES for value in values(alias, topic, 30))  # type: ignore[type-var]

    assert process.terminate() == 0
    assert "Traceback" not in process.log


def between(three: Clusters, flow: str, **settings: Any) -> FlowSettings:
    """A flow `a->b` between two of the clusters; new topics are looked for all the time."""
    source, target = flow.split("->")
    return replace(
        flow_settings(three[source], three[target], refresh_topics_interval_s=0.2, **settings),
        source=Alias(source),
        target=Alias(target),
    )


class Together:
    """Flows that run side by side, without Spark."""

    def __init__(self, flows: Sequence[FlowSettings]) -> None:
        self._flows = flows
        self._stack = ExitStack()
        self.running: list[FlowWithoutSpark] = []

    def __enter__(self) -> Together:
        with self._stack:
            for flow in self._flows:
                self.running.append(self._stack.enter_context(FlowWithoutSpark(flow, flows=self._flows)))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self) -> None:
        for one in self.running:
            assert one.runner.state in (FlowState.STARTING, FlowState.RUNNING), one.runner.reason


@pytest.mark.parametrize(("policy", "last"), [("default", "east-1.west-1.{}"), ("identity", "{}")])
def test_a_chain(three: Clusters, topic_name: str, policy: str, last: str) -> None:
    create_topic(three[WEST], topic_name)
    produce(three[WEST], topic_name, made_in(WEST, topic_name, range(10)))
    chain = [
        between(three, f"{one}->{other}", topics=(f".*{topic_name}",), policy=policy)
        for one, other in ((WEST, EAST), (EAST, NORTH))
    ]
    with Together(chain) as flows:
        wanted = {NORTH: {last.format(topic_name): values(WEST, topic_name, 10)}}
        arrive(three, topic_name, wanted, flows.check)


def test_both_active(three: Clusters, topic_name: str) -> None:
    for alias in (WEST, EAST):
        create_topic(three[alias], topic_name)
        produce(three[alias], topic_name, made_in(alias, topic_name, range(10)))
    both = [
        between(three, f"{one}->{other}", topics=(f".*{topic_name}",)) for one, other in ((WEST, EAST), (EAST, WEST))
    ]
    with Together(both) as flows:

        def expected(count: int) -> dict[str, Contents]:
            own = {alias: values(alias, topic_name, count) for alias in (WEST, EAST)}
            return {
                WEST: {topic_name: own[WEST], f"{EAST}.{topic_name}": own[EAST]},
                EAST: {topic_name: own[EAST], f"{WEST}.{topic_name}": own[WEST]},
            }

        arrive(three, topic_name, expected(10), flows.check)
        for alias in (WEST, EAST):
            produce(three[alias], topic_name, made_in(alias, topic_name, range(10, 20)))
        arrive(three, topic_name, expected(20), flows.check)


def test_many_into_one_where_names_are_kept(
    three: Clusters, new_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each source brings its own topics; one that both have is written by the first flow of the file alone."""
    piece = new_name("t")
    names = {WEST: f"{piece}-west", EAST: f"{piece}-east"}
    shared = f"{piece}-shared"
    for alias, name in names.items():
        for topic in (name, shared):
            create_topic(three[alias], topic)
            produce(three[alias], topic, made_in(alias, topic, range(10)))
    into = [between(three, f"{alias}->{NORTH}", topics=(f"{piece}.*",), policy="identity") for alias in (WEST, EAST)]
    for _ in range(2):
        with Together(into) as flows:
            wanted = {names[alias]: values(alias, names[alias], 10) for alias in (WEST, EAST)}
            wanted[shared] = values(WEST, shared, 10)
            arrive(three, piece, {NORTH: wanted}, flows.check)
        # Now that it has been copied, it also stays so when the flows change places.
        into.reverse()
    assert f"{EAST}->{NORTH}: not mirrored: {shared}: {WEST}->{NORTH} copies {shared} of {WEST}" in caplog.text


def test_one_into_many_and_a_hub(three: Clusters, topic_name: str) -> None:
    """The spokes of a hub get each other's topics over it, with both hops in the name."""
    for alias in (EAST, NORTH):
        create_topic(three[alias], topic_name)
        produce(three[alias], topic_name, made_in(alias, topic_name, range(10)))
    ways = ((EAST, WEST), (NORTH, WEST), (WEST, EAST), (WEST, NORTH))
    star = [between(three, f"{one}->{other}", topics=(f".*{topic_name}",)) for one, other in ways]
    east, north = values(EAST, topic_name, 10), values(NORTH, topic_name, 10)
    with Together(star) as flows:
        arrive(
            three,
            topic_name,
            {
                WEST: {f"{EAST}.{topic_name}": east, f"{NORTH}.{topic_name}": north},
                EAST: {topic_name: east, f"{WEST}.{NORTH}.{topic_name}": north},
                NORTH: {topic_name: north, f"{WEST}.{EAST}.{topic_name}": east},
            },
            flows.check,
        )


def marked(three: Clusters, piece: str, alias: str) -> str:
    """Make one more topic: once it has been copied, the flow has looked at all others again."""
    later = f"later-{piece}"
    create_topic(three[alias], later)
    produce(three[alias], later, made_in(alias, later, range(1)))
    return later


@pytest.mark.parametrize("in_one_file", [True, False])
def test_both_active_with_two_separators(
    three: Clusters, topic_name: str, caplog: pytest.LogCaptureFixture, *, in_one_file: bool
) -> None:
    """Nothing comes back; where neither host knows of the other, it comes back once and no further."""
    caplog.set_level("INFO", "twinlog")
    # Other tests use these flows with another separator: no topic that they share may be called otherwise here.
    alike: dict[str, Any] = {"topics": (f".*{topic_name}",), "heartbeats_replication_enabled": False}
    there = between(three, f"{WEST}->{EAST}", **alike)
    back = between(three, f"{EAST}->{WEST}", **alike, separator="_", internal_separator_follows=False)
    create_topic(three[WEST], topic_name)
    produce(three[WEST], topic_name, made_in(WEST, topic_name, range(10)))
    with ExitStack() as stack:
        hosts = [[there, back]] if in_one_file else [[there], [back]]
        running = [stack.enter_context(Together(flows)) for flows in hosts]

        def check() -> None:
            for one in running:
                one.check()

        def expected(*names: str) -> dict[str, Contents]:
            found: dict[str, Contents] = {WEST: {}, EAST: {}}
            for name in names:
                made = values(WEST, name, 10 if name == topic_name else 1)
                found[WEST] |= {name: made} if in_one_file else {name: made, f"{EAST}_{WEST}.{name}": made}
                found[EAST][f"{WEST}.{name}"] = made
            return found

        arrive(three, topic_name, expected(topic_name), check)
        later = marked(three, topic_name, WEST)
        arrive(three, topic_name, expected(topic_name, later), check)
    if in_one_file:
        assert "though" not in caplog.text
        assert f"as other flows of the file name their copies so: {WEST}.{topic_name}" in caplog.text
    else:
        assert f"not mirrored: {EAST}_{WEST}.{topic_name}" in caplog.text
        assert "brought back under another naming" in caplog.text


def test_topics_of_ones_own_that_look_like_copies(
    three: Clusters, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One that `topics` names in full is copied; of the other it is logged why it is not, and what helps."""
    wanted, other = f"{EAST}_wanted-{topic_name}", f"{EAST}_other-{topic_name}"
    alike: dict[str, Any] = {"heartbeats_replication_enabled": False}
    there = between(three, f"{WEST}->{EAST}", topics=(wanted, f".*{topic_name}"), **alike)
    back = between(
        three, f"{EAST}->{WEST}", topics=(f".*{topic_name}",), separator="_", internal_separator_follows=False, **alike
    )
    for name in (wanted, other):
        create_topic(three[WEST], name)
        produce(three[WEST], name, made_in(WEST, name, range(10)))
    made = {name: values(WEST, name, 10) for name in (wanted, other)}
    with Together([there, back]) as running:
        arrive(three, topic_name, {WEST: made, EAST: {f"{WEST}.{wanted}": made[wanted]}}, running.check)
        # Also one that comes later.
        later = f"{EAST}_later-{topic_name}"
        create_topic(three[WEST], later)
        wait_for(
            lambda: "write their names in full in `topics`" in caplog.text and later in caplog.text,
            ARRIVE_S,
            "it is logged",
        )
    warned = [record for record in caplog.records if "though east-1 has no topic of which" in record.getMessage()]
    assert [record.levelname for record in warned] == ["WARNING", "WARNING"]
    assert other in warned[0].getMessage()
    assert wanted not in caplog.text.replace(f"{WEST}.{wanted}", "")
