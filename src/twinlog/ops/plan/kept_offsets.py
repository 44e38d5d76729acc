"""Finds topics whose copies cannot keep the offsets of their sources, and estimates the markers of a run.

The last offsets of each source log are read: they show transactions, and offsets that lack a record. ACLs of the target
show logins whose records would take the offsets of copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError, CorruptBatchError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import read_broker_setting
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.net.connections import principal
from twinlog.kafka.producer.marker_writer import PURPOSE
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import scan
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topics.other_writers import find_other_writers
from twinlog.model.acls import EVERYBODY, AclOperation
from twinlog.model.amounts import counted
from twinlog.model.topics import ConfigEntry, is_compacted, listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.inventory import Inventory, LogOffsets
from twinlog.ops.plan.deciding import PlanFindings
from twinlog.ops.plan.filled_heads import CHECK_MS, RETENTION_CHECK, FilledHead, filled_head
from twinlog.ops.plan.flow_plan import Problem
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

SAMPLE = 1_000
"""How many offsets at the end of a source log are read."""

PARTITION_BYTES, MOST_BYTES = 128 << 10, 8 << 20
"""The size of an answer for a partition, and of an answer for all partitions of a broker."""

_FENCE = "TW-ACL-05"

_FOREIGN = "a record of another producer holds its partition (TW-IDENT-01)"


@dataclass(frozen=True, slots=True)
class LogSample:
    """The last offsets of a source log: their number, how many of them lack a record, and whether some are in a
    transaction."""

    offsets: int
    markers: int
    transactions: bool

    def markers_in(self, offsets: int) -> int:
        """The number of markers for so many offsets, if all of them are as the sample."""
        return -(-self.markers * offsets // self.offsets) if self.offsets else 0


async def sample_logs(
    client: ClusterClient, logs: Mapping[TopicPartition, LogOffsets]
) -> dict[TopicPartition, LogSample]:
    """The samples of source logs whose leaders answer. Raises ClusterError."""
    begins = {part: max(log.start, log.end - SAMPLE) for part, log in logs.items() if log.offsets}
    if not begins:
        return {}
    await client.refresh({part.topic for part in begins})
    answers = await fetch_once(
        client, begins, read_committed=False, partition_bytes=PARTITION_BYTES, most_bytes=MOST_BYTES
    )
    return {
        part: _sample(answer.records, begins[part]) for part, answer in answers.items() if answer.error == Code.NONE
    }


def _sample(records: memoryview, begin: int) -> LogSample:
    """The sample of an answer of a leader, from offset `begin` on. A damaged batch leaves the sample empty."""
    past, markers, transactions = begin, 0, False
    try:
        batches = scan(records)
    except CorruptBatchError:
        batches = []
    for batch in batches:
        if batch.last_offset < begin:
            continue
        if batch.magic == 2:
            markers += max(0, batch.base_offset - past)
            first = max(begin, batch.base_offset)
            there = 0 if batch.is_control else batch.record_count
            # Of a batch that begins before the sample, the later records count.
            markers += max(0, batch.last_offset + 1 - first - there)
            transactions = transactions or batch.is_transactional
        past = batch.last_offset + 1
    return LogSample(past - begin, markers, transactions)


def unkept_offsets(
    flow: FlowSettings,
    pairs: Iterable[TopicPair],
    here: Inventory,
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Mapping[TopicPartition, Position],
    samples: Mapping[TopicPartition, LogSample],
    settings: Mapping[TopicName, Iterable[ConfigEntry]],
    check_ms: int = CHECK_MS,
) -> tuple[list[Problem], list[str], list[FilledHead]]:
    """Topics whose copies are to keep their offsets and cannot, and notes and estimates of the offsets that a run
    fills.

    `here` is the source, `logs` are the target's logs, and `settings` are those of the remote topics in the run.
    `check_ms` is the pause between the target's checks of retention.
    """
    problems, notes, heads = [], [], []
    for pair in pairs:
        name = pair.source.name
        if not flow.keeps_offsets(name):
            continue
        way_out = f"set {flow.key('offsets')}.{name} = translated"
        fills: list[int] = []
        markers = earlier = 0
        transactions = False
        for number in range(pair.source.partitions):
            part = TopicPartition(name, number)
            position, log = positions.get(part), here.logs.get(part)
            end = logs[remote].end if (remote := TopicPartition(pair.remote, number)) in logs else 0
            if end and position is not None and position.kept_from is None:
                text = f"{pair.remote} has copies with translated offsets, so identical offsets may not follow"
                problems.append(Problem("offsets", f"{text}; delete it on {flow.target}, or {way_out}"))
                break
            if end and position is None and log is not None and end > log.end:
                text = f"{remote} ends at offset {end}, and {part} ends at offset {log.end}"
                lost = f"the partition would be held, because {flow.source} lacks the last records of {flow.target}"
                way = f"save them, and delete {pair.remote} on {flow.target}"
                problems.append(Problem("offsets", f"{text}: {lost}; {way}", "TW-IDENT-01"))
                break
            earlier += end if position is None else 0
            if log is not None and (position is None or position.fills):
                fills.append(max(0, log.start - end))
            if log is not None and (sample := samples.get(part)) is not None:
                markers += sample.markers_in(max(0, log.end - max(log.start, end)))
                transactions = transactions or sample.transactions
        else:
            key = key_of(ConsumerSettings, "isolation_level")
            if transactions and flow.consumer.isolation_level != "read_committed":
                text = f"{name} has transactions, and its partitions are held at the next transaction"
                problems.append(Problem("offsets", f"{text}; set {key} = read_committed, or {way_out}", "TW-IDENT-02"))
            note = f"{name} keeps its offsets{_markers(flow, here, pair, markers)}"
            if any(fills):
                head = filled_head(name, pair.remote, fills, settings.get(pair.remote, ()), check_ms)
                heads.append(head)
                note = f"{note}; {head.words()}"
            notes.append(note)
            if earlier:
                notes.append(
                    f"{pair.remote} has records on {flow.target}, and a position is missing: a run compares the last "
                    "of them with the source, and continues after them if they are equal, as after a switchover"
                )
    return problems, notes, heads


def _markers(flow: FlowSettings, here: Inventory, pair: TopicPair, markers: int) -> str:
    compacted = is_compacted(here.configs.get(pair.source.name, ()))
    why = "transactions and removed records" if compacted else "transactions"
    if not markers:
        return f": a marker on {flow.target} fills each offset of {why}"
    return f": about {counted(markers, 'marker')} on {flow.target} for the offsets of {why} that wait for a copy"


def marker_right(there: Inventory, lacks: Callable[[str, str, str], RefusedError]) -> list[Problem]:
    """The missing right to write markers on the target `there`; empty if the right is there, or unknown."""
    if there.may(AclOperation.ALTER) is not False:
        return []
    return [Problem.of("permission", lacks("ALTER", "the cluster", PURPOSE))]


def other_writers(
    flow: FlowSettings, pairs: Iterable[TopicPair], there: Inventory, login: str
) -> tuple[list[Problem], list[str]]:
    """Notes on logins other than `login`, the flow's own, that may write to the remote topics of kept offsets.

    `there` is the target. Each note names the command that takes the right from a login, or the effect of the flow's
    fence; a problem names what the fence cannot do. Super users, and the default for topics that lack an ACL
    (`allow.everyone.if.no.acl.found`), are out of sight.
    """
    remotes = [pair.remote for pair in pairs if flow.keeps_offsets(pair.source.name)]
    if not remotes:
        return [], []
    if there.acls is None:
        unknown = f"the ACLs of {flow.target} are unknown, or it has no authorizer"
        text = f"{unknown}: keep other producers away from {listed(remotes)}, because {_FOREIGN}"
        if flow.fences_writers:
            return [Problem("offsets", f"{text}; {flow.key('fence_writers')} = true needs ACLs", _FENCE)], []
        return [], [text]
    writers = find_other_writers(there.acls, remotes, login)
    found: dict[tuple[str, ...], list[TopicName]] = defaultdict(list)
    for remote, logins in writers.logins.items():
        found[logins].append(remote)
    problems: list[Problem] = []
    notes: list[str] = []
    for others, names in found.items():
        if not flow.fences_writers:
            notes.append(_note(flow, others, names))
        elif EVERYBODY in others:
            problems.append(Problem("offsets", _note(flow, others, names), _FENCE))
        else:
            notes.append(f"a run denies WRITE on {listed(names)} on {flow.target} to {listed(others)}, until it ends")
    if writers.without_acls:
        notes.append(
            f"{listed(writers.without_acls)} on {flow.target} lacks an ACL: with allow.everyone.if.no.acl.found each "
            f"login may write to it, and {_FOREIGN}"
        )
    return problems, notes


def fence_right(flow: FlowSettings, there: Inventory, lacks: Callable[[str, str, str], RefusedError]) -> list[Problem]:
    """The missing right to keep other writers from the remote topics; empty if the right is there, or unknown."""
    if not flow.fences_writers or there.may(AclOperation.ALTER) is not False:
        return []
    return [Problem.of("permission", lacks("ALTER", "the cluster", "keeping other writers from remote topics"))]


def _note(flow: FlowSettings, others: Sequence[str], names: Sequence[TopicName]) -> str:
    text = f"{listed(others)} may write to {listed(names)} on {flow.target}, and {_FOREIGN}"
    if EVERYBODY in others:
        return f"{text}; remove the ACL of {EVERYBODY}, which a DENY would turn against the flow, too"
    deny = f"kafka-acls.sh --add --deny-principal {others[0]} --operation Write --topic {names[0]}"
    return f"{text}; take the right away, for example by {deny}"


def look_at_kept_offsets(
    flow: FlowSettings,
    source: ClusterAdmin,
    target: ClusterAdmin,
    pairs: Sequence[TopicPair],
    here: Inventory,
    there: Inventory,
    positions: Mapping[TopicPartition, Position],
    settings: Mapping[TopicName, Iterable[ConfigEntry]],
    findings: PlanFindings,
) -> tuple[FilledHead, ...]:
    """The heads that a run fills so that copies keep their offsets. Obstacles and markers become findings.

    `settings` are those of the remote topics in the run.
    """
    names = {pair.source.name for pair in pairs if flow.keeps_offsets(pair.source.name)}
    if not names:
        return ()
    logs = {part: log for part, log in here.logs.items() if part.topic in names}
    try:
        samples = source.call(sample_logs, source.client, logs)
    except ClusterError as error:
        samples = {}
        findings.notes.append(f"the last records of topics that keep their offsets are unread: {error}")
    check_ms = _check_ms(target) if any(log.start for log in logs.values()) else CHECK_MS
    problems, notes, heads = unkept_offsets(flow, pairs, here, there.logs, positions, samples, settings, check_ms)
    findings.add(problems, notes)
    findings.add(*other_writers(flow, pairs, there, principal(flow.producer.client)))
    findings.add(fence_right(flow, there, target.client.lacks))
    if any(sample.markers for sample in samples.values()):
        findings.add(marker_right(there, target.client.lacks))
    return tuple(heads)


def _check_ms(target: ClusterAdmin) -> int:
    """The pause between the target's checks of retention; Kafka's default without the right to read it."""
    try:
        return int(target.call(read_broker_setting, target.client, RETENTION_CHECK) or CHECK_MS)
    except ClusterError:
        return CHECK_MS
