"""`twinlog translate` refuses wrong arguments before a contact, and asks a silent cluster again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FIND_COORDINATOR, LIST_OFFSETS, OFFSET_FETCH
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.mirror.records import Checkpoint
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.translate import offset_lookup
from twinlog.settings.flow import FlowSettings

FLOWS = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def ask(folder: Path, *options: str, text: str = FLOWS) -> tuple[int, str]:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["translate", str(file), *options])
    return done.exit_code, " ".join(done.output.replace("│", "").split())


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--topic", "t"),
        ("--topic", "t", "--offset", "3"),
        ("--group", "g", "--topic", "t", "--partition", "1"),
        ("--topic", "t", "--topic", "u", "--partition", "0", "--offset", "3"),
        ("--group", "g", "--offset", "3"),
        ("--topic", "t", "--partition", "-1", "--offset", "3"),
    ],
)
def test_options_without_anything_to_translate_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, printed = ask(tmp_path, *options)
    assert code == 2
    assert "--group" in printed or "--partition" in printed


def test_a_flow_that_is_not_in_the_file(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", "--flow", "b->c")
    assert (code, "there is no flow that copies b->c; the file has a:b" in printed) == (2, True)


def test_several_flows(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", text=FLOWS + "b->a.enabled = true\n")
    assert (code, "FILE has several flows; add --flow a:b or --flow b:a" in printed) == (2, True)


def test_a_wrong_file(tmp_path: Path) -> None:
    code, printed = ask(tmp_path, "--group", "g", text=FLOWS + "tasks.max = none\n")
    assert code == 2
    assert "mm2.properties:5: error: tasks.max: " in printed
    assert "tasks.max" in printed


FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
"""

HERE = TopicPartition(TopicName("t"), 0)
Clusters = tuple[VirtualCluster, VirtualCluster]


def connect_to(cluster: VirtualCluster) -> Connect:
    """The connect function of readers of the world that has a cluster."""
    return lambda alias, client: ClusterAdmin(alias, client, VirtualLoop(cluster.loop.world))


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """A flow that has begun and copied nothing, and a group on its source."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        for topic in ("mm2-offsets.s.internal", "mm2-twinlog-offsets.s.internal"):
            target.create(topic)
        source.create("mm2-offset-syncs.w.internal")
        source.create(GROUPS_TOPIC)
        source.offsets.committed["shop"] = {("t", 0): (5, "")}

        # It is the process's own.
        monkeypatch.setattr("twinlog.ops.translate.command.log_warnings", lambda: None)
        monkeypatch.setattr(offset_lookup, "Lookup", partial(offset_lookup.Lookup, connect=connect_to(source)))
        yield source, target


def flow_of(tmp_path: Path) -> FlowSettings:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    return next(flow for flow in load(file).flows if flow.enabled)


def run(tmp_path: Path, code: int = 1, *options: str, more: str = "") -> str:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + more)
    done = CliRunner().invoke(app, ["translate", str(file), "--group", "shop", *options])
    assert done.exit_code == code
    return done.stdout + done.stderr


FOUND = "s->w has not copied this partition yet"


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (FIND_COORDINATOR, Fault(Code.COORDINATOR_NOT_AVAILABLE)),
        (FIND_COORDINATOR, Fault(lost=True)),
        (OFFSET_FETCH, Fault(Code.NOT_COORDINATOR)),
        (OFFSET_FETCH, Fault(Code.COORDINATOR_LOAD_IN_PROGRESS)),
        (OFFSET_FETCH, Fault(lost=True)),
    ],
)
def test_a_coordinator_that_moves_is_waited_for(clusters: Clusters, tmp_path: Path, key: int, fault: Fault) -> None:
    clusters[0].fault(key, fault, times=1 if fault.lost else 3)
    assert FOUND in run(tmp_path)
    assert clusters[0].faults_left == 0


def test_a_group_whose_coordinator_has_no_leader_is_not_one_that_has_committed_nothing(
    clusters: Clusters, tmp_path: Path
) -> None:
    clusters[0].fault(FIND_COORDINATOR, Fault(Code.COORDINATOR_NOT_AVAILABLE), times=1000)
    out = run(tmp_path, 3)
    assert "cluster s: offsets of group shop are unreadable: " in out
    assert "; what shop had committed last is in the checkpoints, topic s.checkpoints.internal of w" in out


def test_a_cluster_that_never_had_a_group_is_asked_once(clusters: Clusters, tmp_path: Path) -> None:
    source, _ = clusters
    for part in [part for part in source.topics.parts if part[0] == GROUPS_TOPIC]:
        del source.topics.parts[part]
    source.fault(FIND_COORDINATOR, Fault(Code.COORDINATOR_NOT_AVAILABLE), times=1000)
    assert "cluster s: group shop lacks committed offsets" in run(tmp_path)
    assert source.asked[FIND_COORDINATOR] == 1


def test_what_the_flow_has_stored_is_asked_for_again(
    clusters: Clusters, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters
    target.fault(LIST_OFFSETS, Fault(lost=True), topic="mm2-offsets.s.internal")
    source.fault(LIST_OFFSETS, Fault(lost=True), topic="mm2-offset-syncs.w.internal")
    assert FOUND in run(tmp_path)
    assert "the offset syncs are unreadable" not in caplog.text
    assert target.faults_left == source.faults_left == 0


def test_a_topic_that_the_login_may_not_describe_is_named_with_the_missing_right(
    clusters: Clusters, tmp_path: Path
) -> None:
    source, target = clusters
    source.create("t")
    position = encode_position(
        Alias("s"), HERE, Position(SourceOffset(5), TargetOffset(5), topic_id=str(source.topics.ids["t"]))
    )
    batch = encode_batch([(1, record_body(position.key, position.value, position.headers))], CODECS["none"])
    stamp(batch, -1, -1, -1)
    target.log("mm2-offsets.s.internal").append(bytes(batch))
    source.topics.hidden.add("t")
    right = "cluster s: User:ANONYMOUS lacks DESCRIBE on topic t, needed for reading the offsets of groups"
    source.offsets.committed["shop"] = {("other", 0): (5, "")}
    out = run(tmp_path, 3)
    assert f"TW-RIGHT-02: the source hides the offsets of groups in topic t: {right}" in out
    source.offsets.committed["shop"] = {}
    assert f"group shop lacks visible offsets; {right}" in run(tmp_path, 3)


def test_a_copy_that_the_login_may_not_describe_is_named_on_the_way_back(clusters: Clusters, tmp_path: Path) -> None:
    source, target = clusters
    source.create("t")
    target.create("s.t")
    target.create("s.gone")
    stored = {}
    for topic in ("t", "gone"):
        ids = {"remote_topic": f"s.{topic}", "remote_topic_id": str(target.topics.ids[f"s.{topic}"])}
        here = TopicPartition(TopicName(topic), 0)
        stored[topic] = encode_position(Alias("s"), here, Position(SourceOffset(5), TargetOffset(5), **ids))
    batch = encode_batch([(1, record_body(one.key, one.value, one.headers)) for one in stored.values()], CODECS["none"])
    stamp(batch, -1, -1, -1)
    target.log("mm2-offsets.s.internal").append(bytes(batch))
    target.topics.delete(TopicName("s.gone"))
    target.offsets.committed["shop"] = {("other", 0): (5, "")}
    assert "TW-RIGHT-02" not in run(tmp_path, 1, "--back"), "the login sees both: one is there, one is deleted"
    target.topics.hidden |= {"s.t", "s.gone"}
    right = "cluster w: User:ANONYMOUS lacks DESCRIBE on topic s.t, needed for reading the offsets of groups"
    assert f"TW-RIGHT-02: the target hides the offsets of groups in topic s.t: {right}" in run(tmp_path, 3, "--back")
    target.offsets.committed["shop"] = {}
    assert f"group shop lacks visible offsets; {right}" in run(tmp_path, 3, "--back")


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ("", ""),
        ("w->s.enabled = true\nw->s.topics = other\n", ""),
        (
            "w->s.enabled = true\nw->s.topics = own\n",
            ", and `twinlog translate` with --flow w:s, without --back, translates it",
        ),
    ],
    ids=["no flow back", "a flow back without it", "a flow back"],
)
def test_a_topic_of_the_target_itself_has_its_reason_on_the_way_back(
    clusters: Clusters, tmp_path: Path, more: str, way: str
) -> None:
    _, target = clusters
    target.create("own")
    target.offsets.committed["shop"] = {("own", 0): (5, "")}
    out = run(tmp_path, 1, "--back", "--flow", "s:w", more=more)
    (row,) = (line for line in out.splitlines() if line.startswith("own "))
    assert row.endswith(f"own is no copy by s->w: its records were produced on w{way}")


def put(cluster: VirtualCluster, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    batch = encode_batch([(1, record_body(key, value, ())) for key, value in records], CODECS["none"])
    stamp(batch, -1, -1, -1)
    cluster.log(topic).append(bytes(batch))


@pytest.mark.parametrize(
    ("committed", "checkpoint", "place", "exact"),
    [(11, None, 11, True), (20, None, 11, False), (20, 15, 15, False), (26, None, 26, True), (29, None, 26, False)],
)
def test_copies_of_mirror_maker_2_are_translated_as_in_groups(
    clusters: Clusters, tmp_path: Path, committed: int, checkpoint: int | None, place: int, exact: bool
) -> None:
    source, target = clusters
    for cluster, topic in ((source, "t"), (target, "s.t")):
        cluster.create(topic)
        put(cluster, topic, [(b"k", b"v")] * 30)
    syncs = [OffsetSync(TopicName("t"), 0, SourceOffset(at), TargetOffset(at)) for at in (0, 10, 25)]
    put(source, "mm2-offset-syncs.w.internal", [(one.key, one.value) for one in syncs])
    target.create("s.checkpoints.internal")
    if checkpoint is not None:
        one = Checkpoint(GroupId("shop"), TopicName("s.t"), 0, SourceOffset(checkpoint), TargetOffset(checkpoint))
        put(target, "s.checkpoints.internal", [(one.key, one.value)])
    source.offsets.committed["shop"] = {("t", 0): (committed, "")}
    with offset_lookup.Lookup(flow_of(tmp_path)) as lookup:
        (answer,) = lookup.group(GroupId("shop"))
    assert answer.found is not None
    assert (answer.found.offset, answer.found.exact) == (place, exact)
    assert answer.found.by == "syncs"


@pytest.mark.parametrize(
    ("committed", "place", "exact"), [(11, 11, True), (20, 11, False), (26, 26, True), (40, None, False)]
)
def test_offsets_in_copies_from_the_target_have_the_places_of_groups_in_the_originals(
    clusters: Clusters, tmp_path: Path, committed: int, place: int | None, exact: bool
) -> None:
    """After a way back a group reads `w.t` on s, and `groups`, `plan` and a switchover place it in `t` on w."""
    source, target = clusters
    for cluster, topic in ((target, "t"), (source, "w.t")):
        cluster.create(topic)
        put(cluster, topic, [(b"k", b"v")] * 30)
    source.create("mm2-offsets.w.internal")
    target.create("mm2-offset-syncs.s.internal")
    target.create("s.checkpoints.internal")
    if place is not None:
        syncs = [OffsetSync(TopicName("t"), 0, SourceOffset(at), TargetOffset(at)) for at in (0, 10, 25)]
        put(target, "mm2-offset-syncs.s.internal", [(one.key, one.value) for one in syncs])
        position = encode_position(Alias("w"), HERE, Position(SourceOffset(30), TargetOffset(30)))
        put(source, "mm2-offsets.w.internal", [(position.key, position.value)])
    source.offsets.committed["shop"] = {("w.t", 0): (committed, "")}
    flow = flow_of(tmp_path)
    with offset_lookup.Lookup(flow) as lookup:
        (answer,) = lookup.group(GroupId("shop"))
        assert lookup.offset(answer.partition, committed) == answer
    with GroupsReader(flow, connect=connect_to(clusters[0])) as reader:
        ((facts,),) = ([part.facts for part in group.partitions] for group in reader.read(["shop"]).groups)
    shown = run(tmp_path, 1 if place is None else 0)
    if place is None:
        assert answer.reason == "the flow back has no translation of it to t-0"
        assert answer.reason in shown
        return
    assert answer.found is not None
    assert (answer.there, answer.found.offset, answer.found.exact) == (HERE, place, exact)
    assert (facts.remote, facts.translated, facts.exact) == (answer.there, answer.found.offset, answer.found.exact)
    assert f"->  t              0  {place:>6}  {'exact' if exact else 'not exact'}" in shown
