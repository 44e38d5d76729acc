"""Other logins are kept from remote topics with the offsets of their sources, on a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.errors import HarnessError
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.connected_admins import plain_login
from tests.integration.copying import DEADLINE_S, flow_settings
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import sasl_properties
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.writer_fence import WriterFence
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import ProducerSettings
from twinlog.settings.flow import FlowSettings

FLOW, WRITER, READER = "mirrormaker", "connect", "kafkaui"


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A target that leaves topics without ACLs open to all."""
    with KafkaCluster("fenced", acls=True, heap="256m", config={"allow.everyone.if.no.acl.found": "true"}) as cluster:
        yield cluster


RECORDS_ONLY = {
    **CONNECTORS_ONE_REPLICA,
    "emit.checkpoints.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
}
"""Settings of a flow that copies records, and no settings, ACLs and groups."""

FENCED = {"twinlog.offsets": "identical", "twinlog.fence.writers": "true"}


class Fence:
    """The fence of a flow, by the login of the flow; a switchover has an object of its own."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, user: str = FLOW) -> None:
        login = plain_login(target, user)
        settings: FlowSettings = flow_settings(source, target, offsets="identical")
        self._settings = replace(settings, producer=ProducerSettings(login), fence_writers=True)
        self._admin = ClusterAdmin(Alias("b"), login)
        self._admin.connect(DEADLINE_S)
        self.of_flow = WriterFence(self._settings, self._admin)
        self.of_switchover = WriterFence(self._settings, self._admin)

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def fence(source_cluster: KafkaCluster, guarded: KafkaCluster) -> Iterator[Fence]:
    with closing(Fence(source_cluster, guarded)) as made:
        yield made


def may_write(cluster: KafkaCluster, topic: str, user: str) -> bool:
    try:
        produce(cluster, topic, numbered(1), user=user)
    except HarnessError as error:
        if "authorization" not in str(error).lower():
            raise
        return False
    return True


def wait_until(cluster: KafkaCluster, topic: str, *writers: str) -> None:
    """Brokers learn of ACLs a moment after the controller."""
    wanted = {user: user in writers for user in (FLOW, WRITER, READER)}
    wait_for(
        lambda: {user: may_write(cluster, topic, user) for user in wanted} == wanted, DEADLINE_S, f"{writers} may write"
    )


def rights(cluster: KafkaCluster, topic: str) -> set[Acl]:
    return {acl for acl in acls(cluster) if acl.name == topic}


def write_for(user: str, topic: str) -> Acl:
    return Acl(topic, f"User:{user}", "WRITE")


def test_each_other_login_is_denied(guarded: KafkaCluster, fence: Fence, topic_name: str) -> None:
    topic = TopicName(create_topic(guarded, topic_name))
    create_acls(guarded, [write_for(FLOW, topic), write_for(WRITER, topic)])
    before = rights(guarded, topic)
    assert fence.of_flow.keep([topic]) is None
    wait_until(guarded, topic, FLOW)
    assert rights(guarded, topic) - before == {Acl(topic, f"User:{WRITER}", "WRITE", "DENY")}

    later = Acl(topic, f"User:{READER}", "ALL", pattern="PREFIXED")
    create_acls(guarded, [later])
    wait_until(guarded, topic, FLOW, READER)
    assert fence.of_flow.keep([topic]) is None
    wait_until(guarded, topic, FLOW)

    # The next process of the flow knows the fence of a process that was killed.
    fence.of_switchover.lift()
    wait_until(guarded, topic, FLOW, WRITER, READER)
    assert rights(guarded, topic) == {*before, later}


def test_an_acl_of_an_administrator_stays(guarded: KafkaCluster, fence: Fence, topic_name: str) -> None:
    topic = TopicName(create_topic(guarded, topic_name))
    create_acls(guarded, [write_for(FLOW, topic), write_for(WRITER, topic)])
    create_acls(guarded, [Acl(topic, f"User:{WRITER}", "WRITE", "DENY")])
    before = rights(guarded, topic)
    assert fence.of_flow.keep([topic]) is None
    fence.of_flow.lift()
    assert rights(guarded, topic) == before


def test_a_topic_without_acls_may_be_open_to_all(guarded: KafkaCluster, fence: Fence, topic_name: str) -> None:
    """Brokers hide the setting, and a first ACL would close the topic to its readers."""
    topic = TopicName(create_topic(guarded, topic_name))
    reason = fence.of_flow.keep([topic])
    assert reason is not None
    assert reason.startswith(f"{topic} lacks an ACL, and brokers may leave it open to all")
    assert rights(guarded, topic) == set()
    wait_until(guarded, topic, FLOW, WRITER, READER)


def test_the_next_run_has_another_login(
    source_cluster: KafkaCluster, guarded: KafkaCluster, fence: Fence, topic_name: str
) -> None:
    """The fence of a run that was killed would keep the next run from its own topics."""
    topic = TopicName(create_topic(guarded, topic_name))
    create_acls(guarded, [write_for(FLOW, topic), write_for(WRITER, topic)])
    before = rights(guarded, topic)
    assert fence.of_flow.keep([topic]) is None
    wait_until(guarded, topic, FLOW)
    with closing(Fence(source_cluster, guarded, WRITER)) as other:
        assert other.of_flow.keep([topic]) is None
        wait_until(guarded, topic, WRITER)
        other.of_flow.lift()
    wait_until(guarded, topic, FLOW, WRITER)
    assert rights(guarded, topic) == before


def test_a_fence_of_many_topics(guarded: KafkaCluster, fence: Fence, topic_name: str) -> None:
    """A record of the note for all of them would be larger than a megabyte."""
    topics = [TopicName(f"{topic_name}-{number}".ljust(240, "x")) for number in range(3_500)]
    writer = Acl(f"{topic_name}-", f"User:{WRITER}", "WRITE", pattern="PREFIXED")
    create_acls(guarded, [writer])
    wait_for(lambda: writer in acls(guarded), DEADLINE_S, "the writer may write")
    assert fence.of_flow.keep(topics) is None
    wait_for(lambda: bool(rights(guarded, topics[-1])), DEADLINE_S, "the last topic is fenced")
    fence.of_switchover.open_to_producers(topics[:1])
    wait_for(lambda: not rights(guarded, topics[0]), DEADLINE_S, "a topic is open")
    fence.of_switchover.expect_copies(topics[:1])
    fence.of_switchover.lift()
    wait_for(lambda: not rights(guarded, topics[-1]), DEADLINE_S, "the fence is lifted")


def test_a_right_of_everybody_cannot_be_denied(guarded: KafkaCluster, fence: Fence, topic_name: str) -> None:
    topic = TopicName(create_topic(guarded, topic_name))
    create_acls(guarded, [write_for("*", topic)])
    reason = fence.of_flow.keep([topic])
    assert reason is not None
    assert f"an ACL lets User:* write to {topic}" in reason
    wait_until(guarded, topic, FLOW, WRITER, READER)


def test_a_switchover_opens_topics(guarded: KafkaCluster, fence: Fence, new_name: Callable[[str], str]) -> None:
    moved, other = (TopicName(create_topic(guarded, new_name(name))) for name in ("moved", "other"))
    for topic in (moved, other):
        create_acls(guarded, [write_for(FLOW, topic), write_for(WRITER, topic)])
    assert fence.of_flow.keep([moved, other]) is None
    wait_until(guarded, moved, FLOW)
    fence.of_switchover.open_to_producers([moved])
    wait_until(guarded, moved, FLOW, WRITER)
    # The flow still runs.
    assert fence.of_flow.keep([moved, other]) is None
    assert may_write(guarded, moved, WRITER)
    wait_until(guarded, other, FLOW)
    fence.of_switchover.expect_copies([moved])
    assert fence.of_flow.keep([moved, other]) is None
    wait_until(guarded, moved, FLOW)
    fence.of_flow.lift()
    wait_until(guarded, other, FLOW, WRITER)


@pytest.mark.parametrize("off", ["a->b.enabled", "a->b.twinlog.offsets"])
def test_a_fence_of_a_killed_run_ends_with_the_next_process_whose_file_is_without_it(
    source_cluster: KafkaCluster, guarded: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path, off: str
) -> None:
    topic = create_topic(source_cluster, new_name("left"))
    remote = f"a.{topic}"
    produce(source_cluster, topic, numbered(20))
    create_acls(guarded, [Acl(remote, f"User:{FLOW}", "ALL"), write_for(WRITER, remote)])
    settings = {"topics": topic, **RECORDS_ONLY}
    plain = flow_properties("a->b", source_cluster, guarded, settings) + sasl_properties({"b": guarded}, FLOW)
    fenced = f"{plain}\na->b.twinlog.offsets = identical\na->b.twinlog.fence.writers = true\n"
    twinlog = MirrorProcess(tmp_path, "a, b", fenced)
    twinlog.start()
    try:
        wait_for(lambda: not may_write(guarded, remote, WRITER), DEADLINE_S, "the writer is denied")
        twinlog.kill()
        if off == "a->b.enabled":
            # Only heartbeats are written then.
            left = fenced.replace("a->b.enabled = true", "a->b.enabled = false") + "emit.heartbeats.enabled = true\n"
        else:
            left = plain
        twinlog.file.write_text(f"clusters = a, b\n{left}")
        assert not may_write(guarded, remote, WRITER)
        twinlog.restart()
        wait_for(lambda: may_write(guarded, remote, WRITER), DEADLINE_S, "the writer may write again")
        assert twinlog.terminate() == 0
    finally:
        if twinlog.alive:
            twinlog.kill()


def test_a_fence_of_a_killed_run_whose_flow_left_the_file_is_named(
    source_cluster: KafkaCluster, guarded: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = create_topic(source_cluster, new_name("gone"))
    remote = f"a.{topic}"
    create_acls(guarded, [Acl(remote, f"User:{FLOW}", "ALL"), write_for(WRITER, remote)])
    settings = {
        "topics": topic,
        **RECORDS_ONLY,
        **FENCED,
        "group.id": new_name("wave"),
    }
    text = flow_properties("a->b", source_cluster, guarded, settings) + sasl_properties({"b": guarded}, FLOW)
    twinlog = MirrorProcess(tmp_path, "a, b", text)
    twinlog.start()
    try:
        wait_for(lambda: not may_write(guarded, remote, WRITER), DEADLINE_S, "the writer is denied")
    finally:
        twinlog.kill()
    later = tmp_path / "later.properties"
    admin = flow_properties("c->b", source_cluster, guarded, settings | {"twinlog.fence.writers": "false"})
    later.write_text(f"clusters = c, b\n{admin}{sasl_properties({'b': guarded}, 'admin')}")
    fence = f"DENY WRITE on topic {remote} for User:{WRITER} from * is of the fence of a->b"

    def printed() -> str:
        return CliRunner().invoke(app, ["acls", str(later), "--missing"]).output

    # The group drops the killed process after its session.
    wait_for(lambda: fence in printed(), DEADLINE_S, "the fence is named")
    assert f"--deny-principal User:{WRITER} --operation Write --topic {remote}" in printed()
    planned = CliRunner().invoke(app, ["plan", str(later)]).output
    assert f"TW-ACL-07: the fence of a->b keeps User:{WRITER} from writing to {remote}" in " ".join(planned.split())


def test_a_run_keeps_other_logins_away_until_it_ends(
    source_cluster: KafkaCluster, guarded: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = create_topic(source_cluster, new_name("same"))
    remote = f"a.{topic}"
    produce(source_cluster, topic, numbered(20))
    create_acls(guarded, [write_for(FLOW, remote), write_for(WRITER, remote)])
    # The run creates the topic, and other operations of the flow need rights of their own now.
    create_acls(guarded, [Acl(remote, f"User:{FLOW}", "ALL")])
    settings = {"topics": topic, **RECORDS_ONLY, **FENCED}
    text = flow_properties("a->b", source_cluster, guarded, settings) + sasl_properties({"b": guarded}, FLOW)
    twinlog = MirrorProcess(tmp_path, "a, b", text)
    twinlog.start()
    try:
        twinlog.wait_for_line(rf"a->b: created 1 ACLs: DENY WRITE on {remote} for User:{WRITER}")
        wait_for(lambda: offsets(guarded, remote) == (0, 20), DEADLINE_S, "the topic is copied")
        wait_for(lambda: not may_write(guarded, remote, WRITER), DEADLINE_S, "the writer is denied")
        twinlog.kill()
        assert not may_write(guarded, remote, WRITER)
        twinlog.restart()
        produce(source_cluster, topic, numbered(20))
        wait_for(lambda: offsets(guarded, remote) == (0, 40), DEADLINE_S, "the next process copies")
        assert twinlog.terminate() == 0
        wait_for(lambda: may_write(guarded, remote, WRITER), DEADLINE_S, "the writer may write again")
    finally:
        if twinlog.alive:
            twinlog.kill()
