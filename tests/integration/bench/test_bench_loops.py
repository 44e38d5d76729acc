"""The loops that `make bench` measures beside twinlog copy every record as it is, and commit acknowledged offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from bench.copies.copying import Kept
from bench.copies.fidelity import _record, judge
from bench.peers.commands import PeerJob, PeerName, franz_program, peer_command, peer_environment
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume, ends
from harness.errors import HarnessError
from harness.produce import produce
from harness.topics import create_topic
from harness.wait import wait_for

PARTITIONS = 3
RECORDS = 300


@pytest.mark.parametrize("peer", ["librdkafka", pytest.param("franz", marks=pytest.mark.scenario)])
def test_a_loop_copies_records_as_they_are_and_goes_on_where_it_ended(
    peer: PeerName, source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    if peer == "franz":
        try:
            franz_program()
        except HarnessError as error:
            pytest.skip(f"the loop in Go cannot be built here: {error}")
    topic, remote = f"looped-{peer}", f"{peer}.looped"
    create_topic(source_cluster, topic, PARTITIONS)
    create_topic(target_cluster, remote, PARTITIONS)
    job = PeerJob(source_cluster.bootstrap, target_cluster.bootstrap, topic, remote, "gzip", f"loop-{peer}", tmp_path)
    loop = Child(peer, peer_command(peer, job), tmp_path / "loop.log", peer_environment(peer))
    for half in range(2):
        for partition in range(PARTITIONS):
            numbers = range(half * RECORDS // 2, (half + 1) * RECORDS // 2)
            produce(source_cluster, topic, (_record(partition, number) for number in numbers), partition=partition)
        wanted = PARTITIONS * (half + 1) * RECORDS // 2
        loop.start()
        try:

            def copied(wanted: int = wanted) -> bool:
                loop.require_alive()
                return ends(target_cluster, [remote])[remote] >= wanted

            wait_for(copied, 60, f"{remote} has {wanted} records", every_s=0.1)
            assert loop.terminate(20), loop.log_tail()
        finally:
            loop.kill()
        assert _committed(source_cluster, job.group) == dict.fromkeys(range(PARTITIONS), wanted // PARTITIONS)
    assert judge(consume(source_cluster, topic), consume(target_cluster, remote)) == Kept()


def _committed(cluster: KafkaCluster, group: str) -> dict[int, int]:
    """The offset of each partition. franz-go commits metadata, of which librdkafka returns more than there is."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        return {place.partition: found.offset for place, found in admin.list_group_offsets(group)[group].items()}
    finally:
        admin.close()
