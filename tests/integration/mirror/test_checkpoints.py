"""Groups go on at the target where they stood on the source: checkpoints and committed offsets while a flow runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import Committed, Offsets, commit_offsets, group_offsets
from harness.jvm.tools import CONSOLE_CONSUMER, run_tool
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records, offsets, topics
from harness.wait import wait_for
from tests.integration.consuming import PROTOCOLS, Member, Protocol
from tests.integration.copying import SOURCE, TARGET, flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from tests.seeds import own_number
from twinlog.client import translate_offsets
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

PATIENCE_S = 60.0
"""Five seconds after its last commit a group can go on at the target exactly where it stood, unless all are busy."""

GROUP_PARTITIONS = 5
"""Partitions of the harness' `__consumer_offsets`."""

LOST = 7
"""Records of the transaction that is rolled back: they are copied too."""

NUL = "\0"
"""librdkafka commits it after the metadata."""

CHECKPOINTS = f"{SOURCE}.checkpoints.internal"
ASK = Path(__file__).parents[1] / "java" / "AskRemoteCluster.java"


@pytest.fixture(scope="module")
def prefix(request: pytest.FixtureRequest) -> str:
    """What topics and groups of this module begin with."""
    return f"moves-{own_number(request.node)}"


@pytest.fixture(scope="module", autouse=True)
def coordinators(source_cluster: KafkaCluster, target_cluster: KafkaCluster, prefix: str) -> None:
    """Coordinators of groups that have loaded: librdkafka dies when it asks for offsets before that."""
    for cluster in (source_cluster, target_cluster):
        first = create_topic(cluster, f"first-{prefix}")
        commit_offsets(cluster, {f"{first}-{number}": {(first, 0): 0} for number in range(GROUP_PARTITIONS * 4)})


@pytest.fixture(scope="module")
def settings(source_cluster: KafkaCluster, target_cluster: KafkaCluster, prefix: str) -> FlowSettings:
    """A flow with the intervals that it has by default."""
    return flow_settings(
        source_cluster,
        target_cluster,
        topics=(f"{prefix}-default.*",),
        groups=(f"{prefix}-default.*",),
        refresh_topics_interval_s=0.3,
        sync_group_offsets_interval_s=1.0,
        heartbeats_replication_enabled=False,
    )


@pytest.fixture(scope="module")
def quick_settings(settings: FlowSettings, prefix: str) -> FlowSettings:
    """A flow whose jobs take their turns more often, to wait less for them."""
    return replace(
        settings,
        topics=(f"{prefix}-quick.*", f"{TARGET}\\.{prefix}-quick.*"),
        groups=(f"(a-left-out-)?{prefix}-quick.*",),
        groups_exclude=("a-left-out-.*",),
        refresh_groups_interval_s=0.3,
        emit_checkpoints_interval_s=0.3,
        sync_group_offsets_interval_s=0.3,
    )


@pytest.fixture(scope="module")
def flow(settings: FlowSettings) -> Iterator[None]:
    with FlowWithoutSpark(settings):
        yield


@pytest.fixture(scope="module")
def quick_flow(quick_settings: FlowSettings) -> Iterator[None]:
    with FlowWithoutSpark(quick_settings):
        yield


class Scene:
    """A topic that the flow copies, and groups that read it."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, name: str, partitions: int = 1) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, name, partitions)
        self.remote = f"{SOURCE}.{name}"
        self.partitions = partitions

    def group(self, name: str = "group") -> str:
        return f"{self.topic}-{name}"

    def fill(self, count: int = 40, start: int = 0) -> list[bytes]:
        """Records in each partition, with holes: transactions, one of them rolled back. Returns those that count."""
        values = []
        for part in range(self.partitions):
            begin = start + part * 1_000_000
            first, second = numbered(count // 2, start=begin), numbered(count - count // 2, start=begin + count // 2)
            produce(self.source, self.topic, first, partition=part, transactional_id=f"{self.topic}-{part}")
            lost = numbered(LOST, start=begin + 500_000)
            produce(self.source, self.topic, lost, partition=part, transactional_id=f"{self.topic}-{part}", abort=True)
            produce(self.source, self.topic, second, partition=part, transactional_id=f"{self.topic}-{part}")
            values += [record.value or b"" for record in (*first, *second)]
        return values

    def wait_until_copied(self, count: int) -> None:
        """Wait until partition 0 has `count` records on the target."""

        def copied() -> bool:
            return self.remote in topics(self.target) and offsets(self.target, self.remote)[1] == count

        wait_for(copied, 60, f"{self.topic} is copied")

    def on_target(self, group: str) -> Offsets:
        return group_offsets(self.target, [group])[group]

    def checkpoints(self, group: str) -> list[Checkpoint]:
        """All checkpoints of a group that were ever written and not compacted away."""
        found = [decode_checkpoint(one.key, one.value) for one in consume(self.target, CHECKPOINTS)]
        return [checkpoint for checkpoint in found if checkpoint is not None and checkpoint.group == group]

    def wait_for_offsets(self, group: str, offsets: Offsets) -> None:
        wait_for(lambda: self.on_target(group) == offsets, PATIENCE_S, f"{group} stands at {offsets} on the target")

    def left(self, group: str) -> int | None:
        """How many records of partition 0 the group would still get on the target, None while it is not there."""
        stands = self.on_target(group).get((self.remote, 0))
        if stands is None:
            return None
        return sum(record.offset >= stands.offset for record in consume(self.target, self.remote))


@pytest.fixture
def scene(
    quick_flow: None,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    prefix: str,
    request: pytest.FixtureRequest,
) -> Scene:
    return Scene(source_cluster, target_cluster, f"{prefix}-quick-{own_number(request.node)}")


@pytest.fixture
def default_scene(
    flow: None, source_cluster: KafkaCluster, target_cluster: KafkaCluster, prefix: str, request: pytest.FixtureRequest
) -> Scene:
    return Scene(source_cluster, target_cluster, f"{prefix}-default-{own_number(request.node)}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_moves_and_skips_and_repeats_nothing(default_scene: Scene, protocol: Protocol) -> None:
    scene = default_scene
    group = scene.group()
    values = scene.fill()
    with Member(scene.source, group, [scene.topic], protocol) as member:
        first = member.read(23)
        member.commit()
    scene.wait_until_copied(len(values) + LOST)
    wait_for(lambda: scene.left(group) == len(values) - 23, PATIENCE_S, f"{group} stands where it read up to")
    with Member(scene.target, group, [scene.remote], protocol) as member:
        rest = member.read(len(values) - 23)
        assert member.read_on() == []
    assert first + rest == values


def test_a_group_at_the_end_stands_at_the_end(scene: Scene) -> None:
    group = scene.group()
    values = scene.fill()
    with Member(scene.source, group, [scene.topic], "classic") as member:
        assert member.read(len(values)) == values
        assert member.read_on() == []
        member.commit()
    end = offsets(scene.target, scene.remote)[1]
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(end)})


def test_a_group_stands_at_the_end_of_logs_that_retention_emptied(scene: Scene) -> None:
    """MirrorMaker 2 gave such groups offset 0, or none (KAFKA-12635)."""
    group = scene.group()
    produce(scene.source, scene.topic, numbered(100))
    scene.wait_until_copied(100)
    for cluster, topic in ((scene.source, scene.topic), (scene.target, scene.remote)):
        delete_records(cluster, topic, 100)
    commit_offsets(scene.source, {group: {(scene.topic, 0): 100}})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(100)})
    assert offsets(scene.target, scene.remote) == (100, 100)


def test_a_group_stands_at_0_where_the_source_was_empty_before_the_copy_began(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    prefix: str,
    request: pytest.FixtureRequest,
) -> None:
    name = f"{prefix}-quick-{own_number(request.node)}"
    early, group = create_topic(source_cluster, f"early-{name}"), f"{name}-group"
    settings = flow_settings(
        source_cluster,
        target_cluster,
        topics=(early,),
        groups=(group,),
        refresh_topics_interval_s=0.3,
        refresh_groups_interval_s=0.3,
        emit_checkpoints_interval_s=0.3,
        sync_group_offsets_interval_s=0.3,
        heartbeats_replication_enabled=False,
    )
    produce(source_cluster, early, numbered(100))
    delete_records(source_cluster, early, 100)
    commit_offsets(source_cluster, {group: {(early, 0): 100}})
    remote = f"{SOURCE}.{early}"
    with FlowWithoutSpark(settings):
        wait_for(
            lambda: group_offsets(target_cluster, [group])[group] == {(remote, 0): Committed(0)},
            PATIENCE_S,
            f"{group} stands at the end of an empty log",
        )
    assert offsets(target_cluster, remote) == (0, 0)


def test_a_new_group_is_there_within_seconds_and_its_metadata_with_it(default_scene: Scene) -> None:
    scene = default_scene
    produce(scene.source, scene.topic, numbered(10))
    scene.wait_until_copied(10)
    group = scene.group("größe")
    commit_offsets(scene.source, {group: {(scene.topic, 0): Committed(4, "nötig")}})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(4, "nötig")})
    # One that was written before the exact map was stored leads further back.
    last = scene.checkpoints(group)[-1]
    assert (last.upstream, last.downstream, last.metadata) == (4, 4, "nötig" + NUL)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_in_use_on_the_target_is_left_alone_until_it_is_not(
    scene: Scene, protocol: Protocol, caplog: pytest.LogCaptureFixture
) -> None:
    group = scene.group()
    caplog.set_level(logging.INFO)
    produce(scene.source, scene.topic, numbered(30))
    scene.wait_until_copied(30)
    with Member(scene.target, group, [scene.remote], protocol) as member:
        member.read(30)
        commit_offsets(scene.source, {group: {(scene.topic, 0): 20}})
        wait_for(lambda: scene.checkpoints(group), 60, "a checkpoint")
        wait_for(lambda: f"group {group} is in use" in caplog.text, 60, "the flow logs that the group is in use")
        assert scene.on_target(group) == {}
        member.beat()
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(20)})


def test_offsets_never_go_back_and_checkpoints_only_with_their_group(scene: Scene) -> None:
    produce(scene.source, scene.topic, numbered(30))
    scene.wait_until_copied(30)
    ahead, group = scene.group("ahead"), scene.group()
    commit_offsets(scene.target, {ahead: {(scene.remote, 0): 25}})
    commit_offsets(scene.source, {name: {(scene.topic, 0): 20} for name in (ahead, group)})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(20)})
    commit_offsets(scene.source, {group: {(scene.topic, 0): 10}})
    wait_for(lambda: scene.checkpoints(group)[-1].downstream == 10, PATIENCE_S, "the checkpoint follows the group back")
    commit_offsets(scene.source, {group: {(scene.topic, 0): 12}})
    wait_for(lambda: scene.checkpoints(group)[-1].downstream == 12, PATIENCE_S, "and forth")
    # The first checkpoint of a group says nothing about checkpoints of other groups.
    wait_for(lambda: scene.checkpoints(ahead), PATIENCE_S, "a checkpoint of the group ahead")
    # A later commit of another group shows that the target has been looked at since.
    last = scene.group("last")
    commit_offsets(scene.source, {last: {(scene.topic, 0): 1}})
    scene.wait_for_offsets(last, {(scene.remote, 0): Committed(1)})
    assert scene.on_target(group) == {(scene.remote, 0): Committed(20)}
    assert scene.on_target(ahead) == {(scene.remote, 0): Committed(25)}


def test_a_group_that_commits_without_members_is_left_alone(scene: Scene) -> None:
    produce(scene.source, scene.topic, numbered(50))
    scene.wait_until_copied(50)
    group = scene.group()
    commit_offsets(scene.source, {group: {(scene.topic, 0): 10}})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(10)})
    commit_offsets(scene.target, {group: {(scene.remote, 0): 15}})
    commit_offsets(scene.source, {group: {(scene.topic, 0): 30}})
    wait_for(lambda: scene.checkpoints(group)[-1].downstream == 30, PATIENCE_S, "the checkpoint follows the group")
    # A round after this checkpoint commits the offset of another group: it has looked at both.
    last = scene.group("last")
    commit_offsets(scene.source, {last: {(scene.topic, 0): 1}})
    scene.wait_for_offsets(last, {(scene.remote, 0): Committed(1)})
    assert scene.on_target(group) == {(scene.remote, 0): Committed(15)}


def test_nothing_is_written_when_nothing_changes_nor_after_a_restart(
    scene: Scene, quick_settings: FlowSettings
) -> None:
    group = scene.group()
    produce(scene.source, scene.topic, numbered(10))
    scene.wait_until_copied(10)
    commit_offsets(scene.source, {group: {(scene.topic, 0): 10}})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(10)})
    wait_for(lambda: scene.checkpoints(group), PATIENCE_S, "a checkpoint of the group")
    end = offsets(scene.target, CHECKPOINTS)[1]
    # The flow of the other tests leaves this group to the restarted flow.
    fresh = f"again-{group}"
    groups = (f"(again-)?{scene.topic}-group",)
    with FlowWithoutSpark(replace(quick_settings, topics=(f"{scene.topic}.*",), groups=groups)):
        for offset in (3, 5):
            # A new group gets its first checkpoint by itself; the second one comes with a look at all groups.
            commit_offsets(scene.source, {fresh: {(scene.topic, 0): offset}})
            wait_for(
                lambda at=offset: [one.downstream for one in scene.checkpoints(fresh)][-1:] == [at],  # type: ignore[misc]
                PATIENCE_S,
                f"a checkpoint of the new group at {offset}",
            )
    written = [decode_checkpoint(one.key, one.value) for one in consume(scene.target, CHECKPOINTS, start=end)]
    assert {one.group for one in written if one is not None} & {group, fresh} == {fresh}


def test_groups_without_checkpoints_are_named_with_the_reason(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    produce(scene.source, scene.topic, numbered(10))
    # The message has the first few names in order, and groups of other tests are left out too.
    left_out, elsewhere = f"a-left-out-{scene.topic}", scene.group("elsewhere")
    other = create_topic(scene.source, f"other-{scene.topic}")
    commit_offsets(scene.source, {left_out: {(scene.topic, 0): 1}, elsewhere: {(other, 0): 0}})

    def logged(group: str, keys: str) -> bool:
        """The flow of the other tests logs of both groups that they are not its own."""
        reasons = (message for message in caplog.messages if "no checkpoints for group" in message)
        return any(group in message and keys in message for message in reasons)

    wait_for(lambda: logged(left_out, "groups.exclude"), 60, "a group that is left out is named")
    wait_for(lambda: logged(elsewhere, "topics.exclude"), 60, "a group without a topic is named")
    assert scene.checkpoints(left_out) == scene.checkpoints(elsewhere) == []


def test_a_group_finds_its_way_back(scene: Scene, quick_settings: FlowSettings) -> None:
    """It reads a topic that came from the target; at the target it goes on in that topic itself."""
    topic = create_topic(scene.target, f"{scene.topic}-back")
    produce(scene.target, topic, numbered(10), transactional_id=topic, abort=True)
    produce(scene.target, topic, numbered(20), transactional_id=topic)
    back = replace(
        quick_settings,
        source=TARGET,
        target=SOURCE,
        consumer=replace(quick_settings.consumer, client=quick_settings.producer.client),
        producer=replace(quick_settings.producer, client=quick_settings.consumer.client),
        source_admin=quick_settings.target_admin,
        target_admin=quick_settings.source_admin,
        topics=(topic,),
        groups=(),
    )
    group = scene.group()
    copy = f"{TARGET}.{topic}"
    with FlowWithoutSpark(back):
        with Member(scene.source, group, [copy], "classic") as member:
            member.read(13)
            member.commit()
        here = group_offsets(scene.source, [group])[group][copy, 0].offset
        wanted = next(
            one.offset
            for one in consume(scene.target, topic)
            if one.value == consume(scene.source, copy, start=here)[0].value
        )
        scene.wait_for_offsets(group, {(topic, 0): Committed(wanted)})
    # A first one may be coarse.
    assert {one.topic for one in scene.checkpoints(group)} == {topic}
    assert wanted != here


def test_kafkas_own_classes_read_checkpoints(scene: Scene, target_cluster: KafkaCluster) -> None:
    produce(scene.source, scene.topic, numbered(10))
    scene.wait_until_copied(10)
    group = scene.group()
    commit_offsets(scene.source, {group: {(scene.topic, 0): Committed(7, "note")}})
    scene.wait_for_offsets(group, {(scene.remote, 0): Committed(7, "note")})
    bootstrap = target_cluster.bootstrap
    asked = run_tool(str(ASK), [bootstrap, SOURCE, group, "none"], deadline_s=120)
    assert json.loads(asked)["group"] == {f"{scene.remote}-0": [7, "note" + NUL]}
    ours = translate_offsets(ClientSettings((bootstrap,)), SOURCE, group, 30)
    assert {str(where): tuple(what) for where, what in ours.items()} == {f"{scene.remote}-0": (7, "note" + NUL)}
    formatter = "org.apache.kafka.connect.mirror.formatters.CheckpointFormatter"
    options = ["--bootstrap-server", bootstrap, "--topic", CHECKPOINTS, "--from-beginning"]
    options += ["--max-messages", str(len(consume(scene.target, CHECKPOINTS)))]
    options += ["--timeout-ms", "15000", "--formatter", formatter]
    lines = run_tool(CONSOLE_CONSUMER, options, deadline_s=90).splitlines()
    assert str(Checkpoint(GroupId(group), TopicName(scene.remote), 0, 7, 7, "note" + NUL)) in lines


class Seldom:
    """A topic with ten records and a flow of its own that copies it, with other intervals."""

    def __init__(self, scene: Scene, settings: FlowSettings, **intervals_s: float) -> None:
        self.scene = scene
        produce(scene.source, scene.topic, numbered(10))
        self.group = scene.group()
        own = replace(settings, topics=(scene.topic,), groups=(f"{scene.topic}.*",), **intervals_s)  # type: ignore[arg-type]
        self.flow = FlowWithoutSpark(own)

    def commit(self, offset: int) -> None:
        commit_offsets(self.scene.source, {self.group: {(self.scene.topic, 0): offset}})

    def wait_for(self, offset: int) -> None:
        self.scene.wait_for_offsets(self.group, {(self.scene.remote, 0): Committed(offset)})


def test_a_group_that_is_found_waits_for_no_other_interval(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, quick_settings: FlowSettings, prefix: str
) -> None:
    scene = Scene(source_cluster, target_cluster, f"{prefix}-found")
    seldom = Seldom(
        scene,
        quick_settings,
        refresh_groups_interval_s=1.0,
        emit_checkpoints_interval_s=3600,
        sync_group_offsets_interval_s=3600,
    )
    with seldom.flow:
        scene.wait_until_copied(10)
        seldom.commit(7)
        seldom.wait_for(7)


def test_a_commit_that_changes_waits_for_the_interval_of_checkpoints_alone(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, quick_settings: FlowSettings, prefix: str
) -> None:
    scene = Scene(source_cluster, target_cluster, f"{prefix}-changed")
    seldom = Seldom(
        scene,
        quick_settings,
        refresh_groups_interval_s=3600,
        emit_checkpoints_interval_s=1.0,
        sync_group_offsets_interval_s=3600,
    )
    seldom.commit(3)
    with seldom.flow:
        seldom.wait_for(3)
        seldom.commit(7)
        seldom.wait_for(7)


def test_a_stop_translates_once_more(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, quick_settings: FlowSettings, prefix: str
) -> None:
    scene = Scene(source_cluster, target_cluster, f"{prefix}-last")
    seldom = Seldom(
        scene,
        quick_settings,
        refresh_groups_interval_s=0.1,
        emit_checkpoints_interval_s=3600,
        sync_group_offsets_interval_s=3600,
    )
    seldom.commit(3)
    with seldom.flow as flow:
        seldom.wait_for(3)
        scene.wait_until_copied(10)
        seldom.commit(10)
        flow.stop()
    assert scene.on_target(seldom.group) == {(scene.remote, 0): Committed(10)}
    assert [one.downstream for one in scene.checkpoints(seldom.group)][-1] == 10


def test_without_checkpoints_no_group_is_touched(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, quick_settings: FlowSettings, prefix: str
) -> None:
    scene = Scene(source_cluster, target_cluster, f"{prefix}-without")
    produce(scene.source, scene.topic, numbered(10))
    group = scene.group()
    commit_offsets(scene.source, {group: {(scene.topic, 0): 5}})
    alias = Alias(f"without-{prefix}")
    settings = replace(
        quick_settings,
        source=alias,
        topics=(scene.topic,),
        groups=(group,),
        emit_checkpoints_interval_s=None,
        emit_heartbeats_interval_s=0.1,
    )
    with FlowWithoutSpark(settings) as flow:
        scene.remote = f"{alias}.{scene.topic}"
        scene.wait_until_copied(10)
        flow.stop()
    assert scene.on_target(group) == {}
    assert f"{alias}.checkpoints.internal" not in topics(target_cluster)
