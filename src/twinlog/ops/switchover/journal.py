"""The journal of switchovers: a compacted topic on the cluster to move to, with a single writer at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.claimed_topic import TransactionalWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topics.internal_topics import JOURNALS, MIB, InternalTopic
from twinlog.model.types import TopicName
from twinlog.ops.switchover.entries import (
    JournalEntries,
    JournalLine,
    SwitchoverRun,
    fence_record,
    line_record,
    other_fences,
    read_entries,
    run_record,
    with_lines,
)
from twinlog.ops.switchover.model import Data, SwitchoverDirection

TOPIC = TopicName("mm2-twinlog-switchover.internal")
"""It begins with `mm2` and ends with `internal`, so twinlog and MirrorMaker 2 leave it out."""

ROOM = {**JOURNALS, "segment.bytes": str(64 * MIB), "max.message.bytes": str(32 * MIB)}
"""The result of all groups is a single entry: 2 MB for a hundred thousand offsets, while brokers take 1 MB by
default."""

READ_S = 60.0
_LOSS = "a switchover that was interrupted could not be gone on with"


class TopicJournal:
    """The journal of a direction. Reading fences no writer; `claim_journal` makes this process its writer."""

    def __init__(self, ends: SwitchoverDirection, cluster: ClusterAdmin, replication_factor: int) -> None:
        self._ends = ends
        self._cluster = cluster
        self._topic = InternalTopic(TOPIC, ends.target, replication_factor, ROOM, _LOSS)
        self._writer = TransactionalWriter(
            cluster.client, TOPIC, f"mm2-twinlog-switchover-{ends}{ends.wave and '-'}{ends.wave}"
        )
        self.entries = JournalEntries()
        self.others: dict[str, Data] = {}
        """The fences of other moves on this cluster, as they were read last."""
        self.taken = False
        """Whether this process has made itself the writer."""

    def read(self) -> JournalEntries:
        """Read the entries. A cluster that lacks the topic has an empty journal.

        Waits for the open transaction of a killed process: brokers abort it. Raises ClusterError.
        """
        if self._there():
            last: LastRecords = {}
            reader = TopicReader(self._cluster, TOPIC, optional=True, committed=True)
            reader.read_last(last, timeout_s=READ_S)
            records = [(record.key, record.value) for record in map(KeptRecord.decode, last.values())]
            self.entries = read_entries(self._ends, records)
            self.others = other_fences(self._ends, records)
        return self.entries

    def read_unclaimed(self) -> JournalEntries:
        """Read also the entries of open transactions, which may be aborted: they show the process that works now.
        Raises ClusterError."""
        if not self._there():
            return JournalEntries()
        reader = TopicReader(self._cluster, TOPIC, optional=True)
        return read_entries(self._ends, [(record.key, record.value) for _, record in reader.read()])

    def claim_journal(self) -> JournalEntries:
        """Make this process the writer, create a missing topic, and read all entries up to now.

        The previous writer gets a FencedError with its next entry. Raises RefusedError, ClusterError.
        """
        if not self._there():
            require_topics(str(self._ends), self._cluster, [self._topic.new()])
        self._cluster.call(self._writer.begin)
        self.taken = True
        return self.read()

    def write(self, lines: Sequence[JournalLine], run: SwitchoverRun | None = None) -> None:
        """Write lines, and a state of the switchover, all or none.

        Raises FencedError once another process is the writer.
        """
        now = run or self.entries.run
        if now is None:
            raise ClusterError(f"no switchover {self._ends} has begun")
        records: list[tuple[bytes, bytes | None]] = [line_record(now, line) for line in lines]
        if run is not None:
            records.append(run_record(run))
        self._cluster.call(partial(self._writer.append, records))
        self.entries = with_lines(self.entries, lines, run)

    def note_fence(self, plan: Data | None) -> None:
        """Write down the fence on the cluster of this journal, or that it is gone; this process must be the writer."""
        self._cluster.call(self._writer.append, [fence_record(self._ends, plan)])
        self.entries = replace(self.entries, fenced=plan)

    def _there(self) -> bool:
        found = self._cluster.call(self._cluster.client.refresh, [TOPIC])[TOPIC]
        if error_codes.refused(found.error):
            raise self._cluster.client.lacks("READ", f"topic {TOPIC}", "reading the journal of switchovers")
        return found.error != Code.UNKNOWN_TOPIC_OR_PARTITION
