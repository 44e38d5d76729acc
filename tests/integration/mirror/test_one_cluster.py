"""A flow within one cluster, beside MirrorMaker 2: copies lie beside their topics, and nothing of those changes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.acls import Acl, acls, create_acls
from harness.checks.differences import Known, differences, readable, unexpected
from harness.checks.leftovers import Leftovers, leftovers
from harness.cluster import KafkaCluster, side_by_side
from harness.connect.mm2 import MirrorMaker2
from harness.consume import Record, consume, consume_topics
from harness.groups import Committed, Place, commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_topic, topics
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess
from tests.integration.parity import SHORT_INTERVALS
from tests.integration.records import seen
from tests.integration.running import RunTwinlog
from tests.integration.worker.test_parity import KNOWN, SYNCS_READ

MM2_S = 240.0
TWINLOG_S = 180.0
BEGUN_MS = int(time.time() * 1000)
ORDERS, AUDIT, PARTITIONS, COUNT = "orders", "audit.v1", 3, 200
GROUP, PART_WAY = "g-at-end", {(ORDERS, 0): 10, (ORDERS, 1): 0}
COPIES = {f"near.{ORDERS}": PARTITIONS * COUNT, f"near.{AUDIT}": COUNT}
MOVED: dict[Place, Committed] = {
    (f"near.{ORDERS}", 0): Committed(COUNT),
    (f"near.{ORDERS}", 2): Committed(COUNT),
    (f"near.{AUDIT}", 0): Committed(COUNT, "note"),
}
RIGHTS = [
    Acl(ORDERS, "User:kafkaui", "READ"),
    Acl(ORDERS, "User:connect", "WRITE"),
    Acl(ORDERS, "User:connect", "ALL"),
]
COPIED_RIGHTS = [Acl(f"near.{ORDERS}", "User:kafkaui", "READ"), Acl(f"near.{ORDERS}", "User:connect", "READ")]
GROWS = Known(
    r"(topic|heartbeat in|position in|offset sync in) .*near\.near\..*heartbeats.*",
    "MirrorMaker 2 copies its copies of heartbeats again, under longer and longer names (KAFKA-9914).",
)
COPIED_AGAIN = Known(
    r"(position|offset sync) in .*near\.heartbeats.*",
    "MirrorMaker 2 copies its copy of heartbeats again, so that this is a source topic, too.",
)
QUICK = SHORT_INTERVALS | {
    "tasks.max": "2",
    "replication.factor": "1",
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
}


def properties(cluster: KafkaCluster, *flows: str, **more: str) -> str:
    """All lines but that of the aliases, which are those of the first flow; `more` has underscores for dots."""
    lines = {f"{alias}.bootstrap.servers": cluster.bootstrap for alias in flows[0].split("->")}
    lines |= QUICK | {f"{flow}.enabled": "true" for flow in flows}
    lines |= {key.replace("_", "."): value for key, value in more.items()}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def lines(cluster: KafkaCluster) -> str:
    own = {"topics": rf"{ORDERS}, audit\\..*", "groups": "g-.*"}
    return properties(cluster, "near->far", **own) + (
        "near->far.emit.heartbeats.enabled = true\nfar.offset.flush.interval.ms = 500\n"
    )


def prepare(cluster: KafkaCluster) -> None:
    create_topic(cluster, ORDERS, PARTITIONS, config={"retention.ms": "-1", "max.message.bytes": "2000000"})
    create_topic(cluster, AUDIT, config={"segment.bytes": "1048576"})
    # By its name no copy of this flow.
    create_topic(cluster, "far.audit.v1")
    create_acls(cluster, RIGHTS)
    at_end: dict[Place, Committed | int] = {
        (ORDERS, 0): COUNT,
        (ORDERS, 2): COUNT,
        (AUDIT, 0): Committed(COUNT, "note"),
    }
    commit_offsets(cluster, {GROUP: at_end, "other": PART_WAY})


def fill(cluster: KafkaCluster) -> None:
    """With the same timestamps in both clusters."""
    for partition in range(PARTITIONS):
        produce(cluster, ORDERS, dated(numbered(COUNT, size=60, keys=7, headers=True)), partition=partition)
    produce(cluster, AUDIT, dated(numbered(COUNT)))


def dated(records: Iterable[NewRecord]) -> list[NewRecord]:
    return [replace(record, timestamp=BEGUN_MS + number) for number, record in enumerate(records)]


@dataclass(frozen=True)
class Left:
    """What one system left on its cluster."""

    everything: Leftovers
    records: dict[str, list[Record]]


def left(cluster: KafkaCluster) -> Left:
    return Left(leftovers(cluster), consume_topics(cluster, COPIES.keys() & topics(cluster).keys()))


def complete(cluster: KafkaCluster) -> bool:
    """Whether everything is there that takes its time."""
    there = {name: len(found) for name, found in consume_topics(cluster, COPIES.keys() & topics(cluster)).items()}
    if there != COPIES or not MOVED.items() <= group_offsets(cluster, [GROUP])[GROUP].items():
        return False
    found = leftovers(cluster)
    beats = all(found.heartbeats.get(name) for name in ("heartbeats", "near.heartbeats"))
    return beats and bool(found.positions) and set(COPIED_RIGHTS) <= acls(cluster)


def let_mm2_mirror(cluster: KafkaCluster, work: Path) -> None:
    """Records come once its checkpoint tasks read offset syncs, see `test_parity`."""
    with MirrorMaker2("clusters = near, far\n" + lines(cluster), heap="512m", jit="quick", work_dir=work) as mm2:

        def reading() -> bool:
            mm2.process.require_alive()
            return len(SYNCS_READ.findall(mm2.process.log.read_text())) >= 1

        def done() -> bool:
            mm2.process.require_alive()
            return complete(cluster)

        wait_for(reading, MM2_S, "a checkpoint task of MirrorMaker 2 has begun")
        fill(cluster)
        wait_for(done, MM2_S, "MirrorMaker 2 has done everything")
        mm2.stop()


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A cluster for MirrorMaker 2, and one for twinlog."""
    theirs, ours = (KafkaCluster(name, acls=True, heap="256m") for name in ("theirs", "ours"))
    with side_by_side(theirs, ours) as both:
        yield both


@dataclass(frozen=True)
class Beside:
    theirs: Left
    ours: Left
    process: MirrorProcess
    cluster: KafkaCluster


@pytest.fixture(scope="module")
def beside(pair: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    theirs, ours = pair
    for cluster in pair:
        prepare(cluster)
    let_mm2_mirror(theirs, tmp_path_factory.mktemp("mm2"))
    by_mm2 = left(theirs)
    run = RunTwinlog(tmp_path_factory.mktemp("twinlog"))
    try:
        fill(ours)
        process = run("near, far", lines(ours))

        def same() -> bool:
            assert process.alive, process.log
            return complete(ours) and not unexplained(by_mm2, left(ours))

        # The tests tell what differs.
        with contextlib.suppress(TimeoutError):
            wait_for(same, TWINLOG_S, "twinlog leaves the same")
        process.terminate()
        yield Beside(by_mm2, left(ours), process, ours)
    finally:
        run.close()


def unexplained(theirs: Left, ours: Left) -> str:
    """Where the two differ, and nobody knows why."""
    found = differences(theirs.everything.facts(), ours.everything.facts())
    wrong = unexpected(found, (*KNOWN, GROWS, COPIED_AGAIN))
    return readable(wrong, "MirrorMaker 2", "twinlog") if wrong else ""


@pytest.mark.parity
def test_both_leave_the_same(beside: Beside) -> None:
    assert not unexplained(beside.theirs, beside.ours), beside.process.log
    for name, count in COPIES.items():
        assert len(beside.theirs.records[name]) == count
        assert seen(beside.ours.records[name]) == seen(beside.theirs.records[name])
    assert not [name for name in beside.ours.everything.topics if name.startswith(("near.near.", "near.far."))]
    for one in (beside.theirs, beside.ours):
        assert MOVED.items() <= one.everything.groups[GROUP].items()
        # Not followed, and not touched.
        assert one.everything.groups["other"] == {place: Committed(offset) for place, offset in PART_WAY.items()}
    assert "near and far are the same cluster" in beside.process.log


@pytest.mark.parity
def test_commands_take_it_as_any_flow_and_a_switchover_is_refused(beside: Beside) -> None:
    file = beside.process.file
    _, status, _ = command("status", file, "--json")
    seen_flow = next(flow for flow in json.loads(status)["flows"] if flow["flow"] == "near->far")
    assert seen_flow["lag"]["records"] == 0
    code, plan, errors = command("plan", file)
    assert plan.startswith("near->far: nothing is left to do"), plan
    assert "cycle: near.heartbeats" in plan
    assert code == 0, plan + errors
    code, verified, errors = command("verify", file, "--flow", "near->far")
    assert code == 0, verified + errors
    code, differing, errors = command("diff", file, "--from", "near", "--to", "far")
    assert ORDERS not in differing, differing + errors
    back = file.with_name("both.properties")
    back.write_text(file.read_text() + "far->near.enabled = true\n")
    code, out, errors = command("switchover", back, "--from", "near", "--to", "far", "--fence", "none", "--rehearse")
    assert code != 0
    assert "near and far are the same cluster" in out + errors
    assert "a switchover needs two clusters" in out + errors


@pytest.mark.scenario
def test_two_flows_copy_each_topic_once_and_leave_groups_of_the_originals_alone(
    source_cluster: KafkaCluster, run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    """Between two clusters a group's offsets in `two.t` show where it goes on in `t` of cluster two."""
    ours, one, two = source_cluster, new_name("one"), new_name("two")
    topic, group = create_topic(ours, new_name("t")), new_name("g")
    produce(ours, topic, numbered(10))
    here, there = copies = (f"{one}.{topic}", f"{two}.{topic}")
    text = properties(ours, f"{one}->{two}", f"{two}->{one}", topics=rf"(.*\\.)?{topic}", groups=group)
    process = run_twinlog(f"{one}, {two}", text)

    def copied() -> bool:
        assert process.alive, process.log
        return all(name in topics(ours) and len(consume(ours, name)) == 10 for name in copies)

    wait_for(copied, TWINLOG_S, "both flows have copied")
    for offset in (2, 3):
        commit_offsets(ours, {group: {(topic, 0): offset, (there, 0): 7}})

        def synced(offset: int = offset) -> bool:
            return group_offsets(ours, [group])[group].get((here, 0)) == Committed(offset)

        wait_for(synced, TWINLOG_S, f"the offset in a copy follows to {offset}")
    assert group_offsets(ours, [group])[group] == {
        (topic, 0): Committed(3),
        (here, 0): Committed(3),
        (there, 0): Committed(7),
    }
    assert process.terminate() == 0
    assert sorted(name for name in topics(ours) if name.endswith(topic)) == sorted((topic, *copies))
    assert "no checkpoints in topic" not in process.log
    # Tests of this cluster write other records to `heartbeats`: its copies would be topics of a user to their flows.
    # A flow whose first look came before the topic has no copy of it.
    for name in {f"{one}.heartbeats", f"{two}.heartbeats"} & topics(ours).keys():
        delete_topic(ours, name)


def command(name: str, *words: str | Path) -> tuple[int, str, str]:
    """How a command ends, and what it writes to its output and to its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "twinlog", name, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=TWINLOG_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
