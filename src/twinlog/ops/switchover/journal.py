"""The journal of switchovers: a compacted topic on the cluster to move to, with a single writer at a time.

Its entries are the running switchover, and the intent and the result of each of its steps. Decisions follow from
entries alone, so that a process that takes over continues at the point of the last entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import describe_topics
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.coordinator.transactions import hides_transactional_id
from twinlog.kafka.producer.claimed_topic import TransactionalWriter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topics.fence_notes import FENCED
from twinlog.mirror.topics.internal_topics import JOURNALS, MIB, InternalTopic
from twinlog.mirror.topics.journal_keys import RUN, JournalKey, StepPhase, SwitchoverState
from twinlog.model.acls import AclOperation, ResourceType
from twinlog.model.compact_json import object_of, utf8_json
from twinlog.model.topic_names import SWITCHOVERS
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.switchover.login_acls import GRANTED_BY, LoginAcls
from twinlog.ops.switchover.model import Data, SwitchoverDirection, SwitchoverOptions

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]

TOPIC = SWITCHOVERS

ROOM = {**JOURNALS, "segment.bytes": str(64 * MIB), "max.message.bytes": str(32 * MIB)}
"""The result of all groups is a single entry: 2 MB for a hundred thousand offsets, while brokers take 1 MB by
default."""

READ_S = 60.0
_LOSS = "an interrupted switchover would be unable to continue"


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Offsets by topic and partition."""
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The offsets that `to_json` wrote."""
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, offsets in written.items()
        for partition, offset in offsets.items()
    }


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A line of the journal; `at_ms` is its time in milliseconds since 1970."""

    at_ms: int
    data: Data


@dataclass(frozen=True, slots=True)
class SwitchoverRun:
    """A switchover: its name, its options, its state, and the process that worked on it last."""

    name: str
    ends: SwitchoverDirection
    options: SwitchoverOptions
    state: SwitchoverState
    began_ms: int
    owner: str = ""
    seen_ms: int = 0
    """When its owner last noted that it works on it."""


@dataclass(frozen=True, slots=True)
class JournalEntries:
    """The newest switchover of a journal: its steps by name and phase."""

    run: SwitchoverRun | None = None
    steps: Mapping[tuple[str, StepPhase], JournalEntry] = field(default_factory=dict)
    fenced: Data | None = None
    """The fence on the cluster that keeps this journal, which is the cluster to move to."""

    def begun(self, step: str) -> Data | None:
        """Return the intent of a step; None before it began."""
        entry = self.steps.get((step, StepPhase.BEGUN))
        return None if entry is None else entry.data

    def done(self, step: str) -> Data | None:
        """Return the result of a step; None before it was done."""
        entry = self.steps.get((step, StepPhase.DONE))
        return None if entry is None else entry.data

    @property
    def refusals(self) -> list[str]:
        """The obstacles for which the pre-flight refused the switchover; empty if it began."""
        refused = self.run is not None and self.run.state is SwitchoverState.ABORTED
        return list((self.begun("check") or {}).get("problems", ())) if refused else []

    @property
    def refused_since(self) -> JournalEntry | None:
        """The refusal of the last try to begin a switchover after this ended switchover, with its `problems`."""
        found = (self.begun("check") or {}).get("refused_since")
        return None if found is None else JournalEntry(found["at_ms"], {"problems": found["problems"]})

    def at_ms(self, step: str, phase: StepPhase) -> int | None:
        """When that was."""
        entry = self.steps.get((step, phase))
        return None if entry is None else entry.at_ms

    def next_step(self, order: Sequence[str]) -> str | None:
        """Return the first step that is still to do; None at the end."""
        return next((step for step in order if self.done(step) is None), None)

    def last_begun(self, order: Sequence[str]) -> str | None:
        """The last step that has begun."""
        return next((step for step in reversed(order) if self.begun(step) is not None), None)


@dataclass(frozen=True, slots=True)
class JournalLine:
    """An entry to be written; `data` None takes the entry back."""

    step: str
    phase: StepPhase
    entry: JournalEntry | None


def ended_by(entries: JournalEntries, later: JournalEntries) -> JournalEntries:
    """Return `entries` with an ended state if a `later` switchover in the other direction has moved producers back.

    A lost cluster lacks the note of its end until the command of the later switchover runs again.
    """
    run, other = entries.run, later.run
    if run is None or other is None or run.state is not SwitchoverState.DONE or other.began_ms <= run.began_ms:
        return entries
    opened = other.state in (SwitchoverState.RUNNING, SwitchoverState.DONE, SwitchoverState.RETURNED)
    if not opened or later.done("open") is None:
        return entries
    return replace(entries, run=replace(run, state=SwitchoverState.RETURNED))


def run_record(run: SwitchoverRun) -> tuple[bytes, bytes]:
    """A run as key and value of the journal."""
    value = {
        "run": run.name,
        "from": run.ends.source,
        "to": run.ends.target,
        "options": run.options.data(),
        "state": run.state,
        "began_ms": run.began_ms,
        "owner": run.owner,
        "seen_ms": run.seen_ms,
    }
    return _key(run.ends, RUN), utf8_json(value)


def line_record(run: SwitchoverRun, line: JournalLine) -> tuple[bytes, bytes | None]:
    """A line as key and value; a later run writes over it."""
    key = _key(run.ends, line.step, line.phase)
    if line.entry is None:
        return key, None
    return key, utf8_json({"run": run.name, "at_ms": line.entry.at_ms, "data": line.entry.data})


def fence_record(ends: SwitchoverDirection, plan: Data | None) -> tuple[bytes, bytes | None]:
    """The fence on the cluster that keeps the journal of `ends`, as key and value; None once it is lifted."""
    return _key(ends, FENCED), None if plan is None else utf8_json(plan)


def read_entries(ends: SwitchoverDirection, records: Iterable[tuple[bytes | None, bytes | None]]) -> JournalEntries:
    """The newest run of these two clusters and its lines, from all records of the journal in their order.

    Malformed records, and records of a form unknown to this version, are left out.
    """
    last = {key: value for key, value in records if key is not None}
    runs = object_of(last.get(_key(ends, RUN)))
    fenced = object_of(last.get(_key(ends, FENCED))) or None
    try:
        run = SwitchoverRun(
            str(runs["run"]),
            ends,
            SwitchoverOptions.of(runs["options"]),
            SwitchoverState(runs["state"]),
            int(runs["began_ms"]),
            str(runs["owner"]),
            int(runs["seen_ms"]),
        )
    except (KeyError, TypeError, ValueError):
        return JournalEntries(fenced=fenced)
    steps = {}
    for key, value in last.items():
        parts, found = JournalKey.decode(key), object_of(value)
        if parts is not None and found.get("run") == run.name and parts.phase in set(StepPhase):
            steps[parts.step, StepPhase(parts.phase)] = JournalEntry(int(found.get("at_ms", 0)), found.get("data", {}))
    return JournalEntries(run, steps, fenced)


def read_all_waves(
    source: Alias, target: Alias, records: Iterable[tuple[bytes | None, bytes | None]]
) -> list[JournalEntries]:
    """The newest run of each wave of a direction, as `read_entries` reads it, and of all topics together."""
    known = list(records)
    ends = SwitchoverDirection(source, target)
    keys = [JournalKey.decode(key) for key, _ in known if key is not None]
    waves = {key.wave for key in keys if key is not None and key.direction == str(ends)}
    return [read_entries(replace(ends, wave=wave), known) for wave in sorted(waves)]


def _moved_topics(entries: JournalEntries) -> list[TopicName]:
    if entries.run is None or entries.run.state is not SwitchoverState.DONE:
        return []
    return [TopicName(name) for name, *_ in (entries.done("check") or {}).get("topics", ())]


def other_fences(ends: SwitchoverDirection, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[str, Data]:
    """The fences of other moves on the cluster that keeps the journal, by the words for them."""
    found = {}
    for key, value in {key: value for key, value in records if key is not None}.items():
        parts = JournalKey.decode(key)
        if parts is not None and parts.step == FENCED and parts[:2] != (str(ends), ends.wave) and object_of(value):
            name = f"switchover {'->'.join(reversed(parts.direction.split('->')))}"
            found[f"wave {parts.wave} of {name}" if parts.wave else name] = object_of(value)
    return found


def with_lines(
    entries: JournalEntries, lines: Iterable[JournalLine], run: SwitchoverRun | None = None
) -> JournalEntries:
    """Return the entries as they are once these lines, and a run, are written; lines of an earlier run are dropped."""
    now = entries.run if run is None else run
    same = entries.run is not None and now is not None and entries.run.name == now.name
    steps = dict(entries.steps) if same else {}
    for line in lines:
        if line.entry is None:
            steps.pop((line.step, line.phase), None)
        else:
            steps[line.step, line.phase] = line.entry
    return JournalEntries(now, steps, entries.fenced)


def _key(ends: SwitchoverDirection, step: str, phase: str = "") -> bytes:
    return JournalKey(str(ends), ends.wave, step, phase).encode()


class TopicJournal:
    """The journal of a direction. Reading leaves the writer alone; `claim_journal` makes this process its writer."""

    def __init__(self, ends: SwitchoverDirection, cluster: ClusterAdmin, replication_factor: int) -> None:
        self._ends = ends
        self._cluster = cluster
        self._topic = InternalTopic(TOPIC, ends.target, replication_factor, ROOM, _LOSS)
        self._transactional_id = f"mm2-twinlog-switchover-{ends}{ends.wave and '-'}{ends.wave}"
        self._writer = TransactionalWriter(cluster.client, TOPIC, self._transactional_id)
        self.entries = JournalEntries()
        self.topics_of_waves: frozenset[TopicName] = frozenset()
        """The topics that finished waves of this direction have moved, as they were read last."""
        self.others: dict[str, Data] = {}
        """The fences of other moves on this cluster, as they were read last."""
        self.was_read = False
        """Whether this process knows the entries; an absent topic is an empty journal."""
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
            waves = read_all_waves(self._ends.source, self._ends.target, records)
            self.topics_of_waves = frozenset(topic for entries in waves for topic in _moved_topics(entries))
        self.was_read = True
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
        """Write lines, and a state of the switchover, as a whole.

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

    def find_missing_rights(self) -> list[str]:
        """The rights that a writer of this journal lacks, in words with the way out; changes nothing.

        Brokers report the rights on the existing topic (KIP-430), try the creation of an absent topic, and hide a
        transactional id. ACLs tell the rights on an absent topic and on the id, if the login may read ACLs. Unknown
        rights are left out. Raises ClusterError.
        """
        client = self._cluster.client
        known, _ = self._cluster.call(describe_topics, client, [TOPIC])
        acls = LoginAcls(self._cluster)
        lacking: list[tuple[str, str]] = []
        if TOPIC in known:
            may = known[TOPIC].operations
            if may is not None and AclOperation.WRITE not in may:
                lacking.append(("WRITE", f"topic {TOPIC}"))
        else:
            refused, _ = self._cluster.validate_topics([self._topic.new()])
            if any(error_codes.refused(refusal.code) for refusal in refused.values()):
                lacking.append(("CREATE", f"topic {TOPIC}"))
            if acls.forbid(AclOperation.WRITE, TOPIC):
                lacking.append(("WRITE", f"topic {TOPIC}"))
        if self._cluster.call(hides_transactional_id, client, self._transactional_id) or acls.forbid(
            AclOperation.WRITE, self._transactional_id, ResourceType.TRANSACTIONAL_ID
        ):
            lacking.append(("WRITE", f"transactional id {self._transactional_id}"))
        return [
            f"{client.lacks(operation, resource, 'the journal of switchovers')}; {GRANTED_BY}"
            for operation, resource in lacking
        ]

    def _there(self) -> bool:
        found = self._cluster.call(self._cluster.client.refresh, [TOPIC])[TOPIC]
        if error_codes.refused(found.error):
            raise self._cluster.client.lacks("READ", f"topic {TOPIC}", "reading the journal of switchovers")
        return found.error != Code.UNKNOWN_TOPIC_OR_PARTITION
