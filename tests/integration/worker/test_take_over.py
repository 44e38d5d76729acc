"""The real MirrorMaker 2 copies under load and is stopped, twinlog goes on from the same file, and hands back to it.

Both work on the same internal topics. What each of them wrote is known, because the source is read to its end.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.checks.checker import SLOW_TICK_S, Identity, Load, Verdict, check, identify
from harness.checks.internal_records import decode_checkpoint, decode_offset_sync, decode_position
from harness.cluster import KafkaCluster
from harness.connect.mm2 import EVERY_SECOND, ONE_REPLICA, MirrorMaker2
from harness.consume import Record, consume
from harness.groups import commit_offsets, group_offsets
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.parity import MM2_VERSION
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

log = logging.getLogger(__name__)

PARTITIONS = 3
RATE = 500
MORE = 900
"""Records that each of the three copies at least."""
DEADLINE_S = 180.0
LAST = 2
"""The turn in which the load ends, and everything is copied."""
AT_REST_S = 2.5
"""Group offsets are synced every second."""
CLUSTERS = "over, under"
TOPIC, REMOTE = "t-handed-over", "over.t-handed-over"
GROUP, LATE_GROUP = "g-reader", "g-late"


def properties(source: KafkaCluster, target: KafkaCluster) -> str:
    lines = {
        "over.bootstrap.servers": source.bootstrap,
        "under.bootstrap.servers": target.bootstrap,
        "under.offset.flush.interval.ms": "2000",
        "over->under.enabled": "true",
        "over->under.topics": TOPIC,
        "over->under.groups": f"{GROUP}, {LATE_GROUP}",
        "over->under.heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "consumer.poll.timeout.ms": "200",
        **EVERY_SECOND,
        **ONE_REPLICA,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


LATE_S = 8.0
"""How long a group that lags waits to be translated before it comes forward."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One system's part. `ends` and `stored`: the remote log's ends, and the next source offsets by its positions."""

    ends: dict[int, int]
    stored: dict[int, int]
    committed: dict[str, dict[int, int]]
    translated: dict[str, dict[int, int]]


@dataclass
class HandOver:
    source: list[Record] = field(default_factory=list)
    target: list[Record] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)
    """What `twinlog status`, `groups` and `plan` answer while MirrorMaker 2 runs, by command."""
    first: dict[tuple[int, Identity], list[int]] = field(default_factory=dict)
    """Target offsets of each source record's copies."""
    written: dict[int, list[tuple[int, Identity]]] = field(default_factory=dict)
    """Of each partition the records with their source offsets."""

    def finish(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source, self.target = consume(source, TOPIC), consume(target, REMOTE)
        copies = defaultdict(list)
        for record in self.target:
            identity = identify(record)
            assert identity is not None
            copies[record.partition, identity].append(record.offset)
        self.first = dict(copies)
        written = defaultdict(list)
        for record in self.source:
            identity = identify(record)
            assert identity is not None
            written[record.partition].append((record.offset, identity))
        self.written = dict(written)

    def verdict(self) -> Verdict:
        return sum(check(self.source, self.target).values(), Verdict())

    def again(self, begin: dict[int, int], end: dict[int, int]) -> int:
        """Records in this part of the remote log that stood there before."""
        return sum(
            self.first[record.partition, identity][0] < record.offset
            for record in self.target
            if (identity := identify(record))
            and begin[record.partition] <= record.offset < end.get(record.partition, record.offset + 1)
        )

    def skipped(self, committed: dict[int, int], translated: dict[int, int]) -> int:
        """Records that a group at these source offsets wanted, and does not get from these target offsets on."""
        return sum(
            max(self.first[part, identity]) < downstream
            for part, downstream in translated.items()
            for offset, identity in self.written[part]
            if offset >= committed[part]
        )

    def repeated(self, committed: dict[int, int], translated: dict[int, int]) -> int:
        """Records that the group gets again."""
        return sum(
            self.first[part, identity][0] >= downstream
            for part, downstream in translated.items()
            for offset, identity in self.written[part]
            if offset < committed[part]
        )


@pytest.fixture(scope="module")
def handed(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HandOver]:
    source, target = source_cluster, target_cluster
    create_topic(source, TOPIC, PARTITIONS)
    text = properties(source, target)
    run = RunTwinlog(tmp_path_factory.mktemp("twinlog"))
    result = HandOver()

    @contextmanager
    def mm2() -> Iterator[Callable[[], None]]:
        home = tmp_path_factory.mktemp("mm2")
        whole = f"clusters = {CLUSTERS}\n{text}"
        with MirrorMaker2(whole, heap="384m", jit="quick", version=MM2_VERSION, work_dir=home) as running:
            yield running.process.require_alive
            assert running.stop()

    @contextmanager
    def twinlog() -> Iterator[Callable[[], None]]:
        process = run(CLUSTERS, text)

        def alive() -> None:
            assert process.alive, process.log

        yield alive
        assert process.terminate() == 0, process.log

    try:
        with Load(source, TOPIC, PARTITIONS, rate=RATE, tick_s=SLOW_TICK_S) as load:
            for number, system in enumerate((mm2, twinlog, mm2)):
                with system() as alive:
                    if number == LAST:
                        result.seen = seen_from_outside(tmp_path_factory.mktemp("seen") / "mm2.properties", text)
                    marks = _turn(source, target, alive, number, result.turns[-1].committed if number else {})
                    if number == LAST:
                        load.stop()
                        _wait_until_copied(target, alive, _ends(source))
                result.turns.append(Turn(_ends(target), _stored(target), *marks))
        result.finish(source, target)
        yield result
    finally:
        run.close()


def seen_from_outside(file: Path, text: str) -> dict[str, Any]:
    """What commands say of a flow once MirrorMaker 2 has its group."""
    file.write_text(f"clusters = {CLUSTERS}\n{text}")

    def ask(command: str) -> Any:
        result = CliRunner().invoke(app, [command, str(file), "--json"])
        log.info("twinlog %s: %d\n%s", command, result.exit_code, result.output)
        return json.loads(result.stdout)["flows"][0]

    def runs() -> bool:
        found = ask("status")
        return (found["state"], found["condition"]) == ("run by others", "running")

    wait_for(runs, DEADLINE_S, "MirrorMaker 2 is seen to run the flow", every_s=0.5)
    return {command: ask(command) for command in ("status", "groups", "plan")}


def _turn(
    source: KafkaCluster,
    target: KafkaCluster,
    alive: Callable[[], None],
    number: int,
    last_committed: dict[str, dict[int, int]],
) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """Let it copy, commit for the groups meanwhile, and wait until their offsets have come across."""
    before = _ends(target)
    _wait_until_copied(target, alive, {part: before.get(part, 0) + MORE // PARTITIONS for part in range(PARTITIONS)})
    # One group keeps up; the other is where the one before copied, and comes forward only from turn to turn.
    was = last_committed.get(LATE_GROUP, {})
    late = {part: max(100 + 37 * part + 400 * number, was.get(part, 0) + 1) for part in range(PARTITIONS)}
    committed = {LATE_GROUP: late}
    earlier = _translated(target)
    late_since = time.monotonic()

    def came() -> bool:
        nonlocal late_since
        alive()
        if number == 0 and time.monotonic() - late_since > LATE_S:
            # MirrorMaker 2 translates nothing from before its checkpoint task began (Kafka class OffsetSyncStore).
            late.update({part: at - 50 for part, at in _ends(target).items()})
            late_since = time.monotonic()
        committed[GROUP] = {part: at - 50 for part, at in _ends(target).items()}
        offsets_of = {name: {(TOPIC, part): at for part, at in here.items()} for name, here in committed.items()}
        commit_offsets(source, offsets_of)
        now = _translated(target)
        return set(now.get(LATE_GROUP, ())) == set(range(PARTITIONS)) and all(
            now.get(GROUP, {}).get(part, -1) > max(earlier.get(GROUP, {}).get(part, 0), before.get(part, 0))
            for part in range(PARTITIONS)
        )

    wait_for(came, DEADLINE_S, f"the offsets of {GROUP} came across in turn {number}")
    last = (0.0, earlier)

    def at_rest() -> bool:
        nonlocal last
        alive()
        now = _translated(target)
        if now != last[1]:
            last = (time.monotonic(), now)
        return time.monotonic() - last[0] > AT_REST_S

    # Nothing is committed any more: what lags comes across now.
    wait_for(at_rest, DEADLINE_S, "the groups' offsets on the target stand still")
    return committed, _translated(target)


def _wait_until_copied(target: KafkaCluster, alive: Callable[[], None], wanted: dict[int, int]) -> None:
    def copied() -> bool:
        alive()
        ends = _ends(target)
        return all(ends.get(part, 0) >= at for part, at in wanted.items())

    wait_for(copied, DEADLINE_S, f"{REMOTE} has records up to {wanted}")


def _ends(cluster: KafkaCluster) -> dict[int, int]:
    there = topics(cluster)
    name = REMOTE if REMOTE in there else TOPIC
    return {part: offsets(cluster, name, part)[1] for part in range(PARTITIONS)} if name in there else {}


def _stored(target: KafkaCluster) -> dict[int, int]:
    decoded = [decode_position(record) for record in consume(target, "mm2-offsets.over.internal")]
    return {
        one.place[1]: one.last_copied + 1 for one in decoded if one.place is not None and one.last_copied is not None
    }


def _translated(target: KafkaCluster) -> dict[str, dict[int, int]]:
    found = group_offsets(target, [GROUP, LATE_GROUP])
    return {name: {part: one.offset for (_, part), one in places.items()} for name, places in found.items()}


def test_twinlog_takes_over(handed: HandOver) -> None:
    mm2, twinlog, _ = handed.turns
    again = handed.again(mm2.ends, twinlog.ends)
    would_repeat = sum(mm2.ends[part] - mm2.stored[part] for part in range(PARTITIONS))
    log.warning("twinlog repeated %d records, MirrorMaker 2 would have repeated %d", again, would_repeat)

    assert handed.verdict().lost == 0
    assert again <= would_repeat


def test_mirrormaker_2_takes_back(handed: HandOver) -> None:
    _, twinlog, _ = handed.turns

    assert handed.again(twinlog.ends, {}) == 0
    # What twinlog stored when it was stopped is all that it had copied.
    copied = dict.fromkeys(range(PARTITIONS), 0)
    for part, records in handed.written.items():
        for offset, identity in records:
            if handed.first[part, identity][0] < twinlog.ends[part]:
                copied[part] = offset + 1
    assert twinlog.stored == copied


def test_what_mirrormaker_2_runs_is_seen_from_outside(handed: HandOver) -> None:
    status, groups, plan = (handed.seen[command] for command in ("status", "groups", "plan"))
    assert status["others"].startswith("MirrorMaker 2 runs it in group over-mm2: ")
    assert (status["condition"], status["connector"]["state"]) == ("running", "RUNNING")
    assert status["lag"]["by"] == "syncs"
    assert status["lag"]["partitions_unknown"] == 0
    assert {group["group"] for group in groups["groups"]} == {GROUP, LATE_GROUP}
    assert any("MirrorMaker 2 runs the flow now, and a run waits" in note for note in plan["notes"])
    assert plan["problems"] == []


def test_nothing_is_lost_or_damaged(handed: HandOver) -> None:
    verdict = handed.verdict()
    assert len(handed.source) > 3 * MORE
    assert (verdict.lost, verdict.corrupted, verdict.reordered, verdict.unknown) == (0, 0, 0, 0)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_groups_never_skip(handed: HandOver, turn: int) -> None:
    marks = handed.turns[turn]
    for group in (GROUP, LATE_GROUP):
        committed, translated = marks.committed[group], marks.translated.get(group, {})
        assert handed.skipped(committed, translated) == 0, (group, committed, translated)
        repeated = handed.repeated(committed, translated)
        log.warning("turn %d: %s repeats %d records", turn, group, repeated)
        # Of what MirrorMaker 2 copied, twinlog knows its offset syncs only; of its own copies, each.
        assert turn != 1 or group != GROUP or repeated == 0
    assert set(marks.translated[GROUP]) == set(range(PARTITIONS))


def test_every_offset_sync_names_a_record_and_its_copy(
    handed: HandOver, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    here = {(record.partition, record.offset): record.content for record in handed.source}
    there = {(record.partition, record.offset): record.content for record in handed.target}
    syncs = [decode_offset_sync(record) for record in consume(source_cluster, "mm2-offset-syncs.under.internal")]
    wrong = [
        sync
        for sync in syncs
        if sync.topic == TOPIC and here[sync.partition, sync.upstream] != there[sync.partition, sync.downstream]
    ]
    assert wrong == []
    checkpoints = [decode_checkpoint(record) for record in consume(target_cluster, "over.checkpoints.internal")]
    assert {one.group for one in checkpoints} == {GROUP, LATE_GROUP}
    for one in checkpoints:
        assert handed.skipped({one.partition: one.upstream}, {one.partition: one.downstream}) == 0, one
