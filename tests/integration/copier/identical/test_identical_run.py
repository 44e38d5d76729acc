"""`twinlog run` with identical offsets: groups move as they are, and a held topic holds no other topic up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import Committed, commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, offsets
from harness.wait import wait_for
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, MirrorProcess, flow_properties

DEADLINE_S = 180.0
PARTITIONS = 2


def everything(cluster: KafkaCluster, topic: str) -> list[tuple[int, int, tuple[object, ...]]]:
    found = consume(cluster, topic, isolation="read_uncommitted")
    return [(one.partition, one.offset, one.content) for one in found]


def test_groups_keep_their_offsets(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, other = create_topic(source_cluster, new_name("same"), PARTITIONS), new_name("held")
    create_topic(source_cluster, other)
    for number in range(PARTITIONS):
        produce(source_cluster, topic, numbered(300, headers=True), partition=number, codec="lz4", per_batch=17)
        delete_records(source_cluster, topic, 100 + number, number)
    produce(source_cluster, other, numbered(20))
    produce(source_cluster, other, [NewRecord(b"in it")], transactional_id=new_name("tx"))
    group = new_name("group")
    committed = {(topic, 0): Committed(150, "so far"), (topic, 1): Committed(300, "")}
    commit_offsets(source_cluster, {group: committed})
    settings = {
        **GROUPS_EVERY_SECOND,
        "topics": f"{topic}|{other}",
        "groups": group,
        "twinlog.offsets": "identical",
        "twinlog.lease.seconds": "5",
    }
    twinlog = MirrorProcess(tmp_path, "a, b", flow_properties("a->b", source_cluster, target_cluster, settings))
    remote = f"a.{topic}"
    twinlog.start()
    try:
        twinlog.wait_for_line(rf"TW-IDENT-02: a->b: {other}-0 is held at source offset 20")
        wait_for(
            lambda: all(offsets(target_cluster, remote, number) == (100 + number, 300) for number in range(PARTITIONS)),
            DEADLINE_S,
            "both logs have the same bounds",
        )
        moved = {(f"a.{name}", number): what for (name, number), what in committed.items()}
        wait_for(lambda: group_offsets(target_cluster, [group])[group] == moved, DEADLINE_S, "the group has moved")

        # The process dies while records come, and another goes on.
        twinlog.kill()
        for number in range(PARTITIONS):
            produce(source_cluster, topic, numbered(200, start=300), partition=number)
        commit_offsets(source_cluster, {group: {(topic, 0): Committed(477, "further")}})
        twinlog.restart()
        wait_for(
            lambda: all(offsets(target_cluster, remote, number)[1] == 500 for number in range(PARTITIONS)),
            DEADLINE_S,
            "the later records are copied",
        )
        wait_for(
            lambda: group_offsets(target_cluster, [group])[group][remote, 0] == Committed(477, "further"),
            DEADLINE_S,
            "the group has moved on",
        )
        assert twinlog.terminate() == 0
    finally:
        if twinlog.alive:
            twinlog.kill()
    assert everything(target_cluster, remote) == [
        (partition, offset, content) for partition, offset, content in everything(source_cluster, topic)
    ]
    assert offsets(target_cluster, f"a.{other}") == (0, 20)
