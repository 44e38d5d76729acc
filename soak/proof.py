"""What the proof of equality knows after a soak: all that was copied is proven, and no difference was reported."""

from __future__ import annotations

import time
from dataclasses import dataclass

from faults.scene import PARTITIONS, THERE, TOPICS, Scene
from twinlog.config import load
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven, ProvenRangesReader

PROVEN_S = 60.0
"""At rest everything is proven by then; a copier reports all its partitions once a minute."""

ALARM = "TW-PROOF-01"


@dataclass(frozen=True, slots=True)
class ProofOutcome:
    """`unproven` of the `partitions` have copies that are not proven at rest. `alarms` are lines of the logs about a
    difference. The other figures are those of the last copiers."""

    partitions: int
    unproven: int
    proven_records: int
    unproved_records: int
    differences: int
    alarms: int

    @property
    def fine(self) -> bool:
        """Whether everything is proven without an alarm: each alarm of a soak is a false one."""
        return not (self.unproven or self.differences or self.alarms)


def outcome_of(proofs: dict[TopicPartition, PartitionProven], partitions: int, alarms: int) -> ProofOutcome:
    """What the proofs of the reported partitions come to."""
    found = list(proofs.values())
    return ProofOutcome(
        partitions=partitions,
        unproven=partitions - sum(one.reaches(one.copied) for one in found),
        proven_records=sum(part.records for one in found for part in one.ranges),
        unproved_records=sum(one.unproved for one in found),
        differences=sum(one.differences for one in found),
        alarms=alarms,
    )


def look_at_proof(scene: Scene) -> ProofOutcome:
    """Wait at rest until everything is proven, for a minute."""
    (flow,) = load(scene.file, [THERE]).flows
    names = (*TOPICS, *scene.cleaned)
    parts = [TopicPartition(TopicName(topic), number) for topic in names for number in range(PARTITIONS)]
    admin = ClusterAdmin(flow.target, flow.target_admin.client)
    until = time.monotonic() + PROVEN_S
    try:
        admin.connect(PROVEN_S)
        reader = ProvenRangesReader(flow, admin)
        while True:
            alarms = scene.twinlog.log_lines(ALARM) + scene.standby.log_lines(ALARM)
            found = outcome_of(reader.read_proven(parts), len(parts), alarms)
            if not found.unproven or time.monotonic() > until:
                return found
            time.sleep(1)
    finally:
        admin.close()
