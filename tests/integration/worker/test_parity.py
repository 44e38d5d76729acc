"""twinlog beside the real MirrorMaker 2: the same file and the same source, each with a target of its own.

What is left on the targets, and on the source by each, is compared fact by fact; every difference that is wanted stands
in `KNOWN` with its reason.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.checks.differences import Difference, Facts, Known, differences, readable, unexpected
from harness.checks.leftovers import Leftovers, leftovers
from harness.cluster import KafkaCluster
from harness.connect.mm2 import MirrorMaker2
from harness.consume import Record, consume_topics
from harness.errors import HarnessError
from harness.groups import Committed, Place
from harness.topics import delete_topic, topics
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess
from tests.integration.parity import (
    ACLS,
    FLOWS,
    GROUP_OFFSETS,
    MM2_VERSION,
    ORDERS,
    RECORDS,
    TASKS,
    TOPICS,
    fill,
    pay,
    prepare,
    properties,
    remote,
)
from tests.integration.records import seen
from tests.integration.running import RunTwinlog

MM2_S = 180.0
TWINLOG_S = 120.0

SYNCS_READ = re.compile(r"MirrorCheckpointTask: .* Started KafkaBasedLog for topic mm2-offset-syncs")
"""Logged once by each checkpoint task."""

KNOWN = (
    Known(
        r"topic mm2-(configs|status)\..*",
        "Connect's own topics: twinlog reads its settings from the file and reports its state otherwise.",
    ),
    Known(r"topic mm2-twinlog-.*", "twinlog's own topics, for what MirrorMaker 2 has no place for."),
    Known(
        r"topic mm2-offsets\.right\.internal: .*",
        "right->left is not enabled and only writes heartbeats, which needs no position.",
    ),
    Known(
        r'position in .*: \["Mirror(Checkpoint|Heartbeat)Connector",.*',
        "Connect stores these for form's sake; MirrorMaker 2 never reads them.",
    ),
    Known(
        r'position in .*"topic":"[lmf]-empty"\}\]|position in .*"partition":0,"topic":"[lmf]-payments"\}\]',
        "twinlog also stores where it begins in an empty partition; MirrorMaker 2 reads -1 as no position.",
    ),
    Known(
        r'position in .*"partition":1,"topic":"[lmf]-payments"\}\]',
        "twinlog goes on after the transaction's marker, MirrorMaker 2 at the marker.",
    ),
    Known(
        r"(checkpoint in .*: |group )[lmf]-(midway|paid|all-paid)\b.*",
        "Finer: MirrorMaker 2 knows 64 pairs of offsets, twinlog all. `test_translations_are_exact` holds twinlog's.",
    ),
    Known(
        r'position in .*"heartbeats".*|offset sync in .*: heartbeats-0',
        "Heartbeats go on all the time; how many were copied is chance.",
    ),
    Known(
        r"topic (.*heartbeats|.*checkpoints.*internal|mm2-offset(s|-syncs).*): "
        r"(segment\.(ms|bytes)|min\.cleanable\.dirty\.ratio|max\.compaction\.lag\.ms)",
        "twinlog bounds internal topics, so that brokers clean them; MirrorMaker 2 leaves that to a week or 1 GiB.",
    ),
)
KNOWN_BEFORE_4 = (
    Known(
        r"(topic|heartbeat in) (mid\.|far--)heartbeats: .*",
        "`heartbeats.replication.enabled` came with 4.0; before, every flow mirrors heartbeats.",
    ),
)


@dataclass(frozen=True)
class Left:
    """What one system left."""

    source: Leftovers
    target: Leftovers
    records: dict[str, list[Record]]

    def offsets(self, group: str) -> dict[Place, int]:
        """Where a group stands on the target."""
        return {place: committed.offset for place, committed in self.target.groups.get(group, {}).items()}

    def facts(self) -> Facts:
        ours = {f"source: {fact}": value for fact, value in self.source.facts().items() if _mirrors(fact)}
        return {**{f"target: {fact}": value for fact, value in self.target.facts().items()}, **ours}


def _mirrors(fact: str) -> bool:
    """Whether a fact about the source was made by mirroring it."""
    return re.match(r"topic (mm2|heartbeats)|(heartbeat|offset sync|position) in ", fact) is not None


@dataclass(frozen=True)
class Parity:
    mm2: Left
    twinlog: Left
    records: dict[str, list[Record]]
    """Of the source."""
    log: str

    def require_equal(self, kind: str) -> None:
        """Fails when facts of this kind, a regular expression for the beginning of their names, differ unexplained."""

        def some(left: Left) -> Facts:
            return {fact: value for fact, value in left.facts().items() if re.match(kind, fact.split(": ", 1)[1])}

        assert some(self.mm2), f"MirrorMaker 2 left nothing that begins with {kind}: the test proves nothing"
        wrong = _unexplained(some(self.mm2), some(self.twinlog))
        assert not wrong, f"{len(wrong)} differences:\n" + readable(wrong, "MirrorMaker 2", "twinlog") + f"\n{self.log}"


def _unexplained(mm2: Facts, twinlog: Facts) -> list[Difference]:
    of_version = (*KNOWN, *KNOWN_BEFORE_4) if MM2_VERSION.startswith("3.") else KNOWN
    known = [Known(f"(source|target): ({one.facts})", one.reason) for one in of_version]
    return unexpected(differences(mm2, twinlog), known)


def _look(source: KafkaCluster, target: KafkaCluster) -> Left:
    copies = {remote(letter, f"{letter}-{name}") for letter in FLOWS for name in RECORDS} & set(topics(target))
    return Left(leftovers(source), leftovers(target), consume_topics(target, copies))


def _complete(target: KafkaCluster) -> bool:
    """Whether everything is there that takes its time."""
    return not _missing(target)


def _missing(target: KafkaCluster) -> dict[str, object]:
    """What is not there yet of that which takes its time, and what is there instead."""
    counts = {remote(letter, f"{letter}-{name}"): count for letter in FLOWS for name, count in RECORDS.items()}
    there = {name: len(found) for name, found in consume_topics(target, counts.keys() & topics(target).keys()).items()}
    if there != counts:
        return {"records": there}
    left = leftovers(target)
    missing: dict[str, object] = {}
    if sum(len(offsets) for offsets in left.groups.values()) != len(FLOWS) * GROUP_OFFSETS:
        missing["groups"] = left.groups
    for group in [f"{letter}-at-end" for letter in FLOWS]:
        # MirrorMaker 2 writes a sync for the last records of a partition when they have rested for a while.
        if not _at_end(group[0]) <= left.groups.get(group, {}).items():
            missing[group] = left.groups.get(group)
    if len(left.acls) != len(FLOWS) * ACLS:
        missing["acls"] = left.acls
    if not all(left.heartbeats.get(name) for name in ("heartbeats", "left.heartbeats")):
        missing["heartbeats"] = sorted(left.heartbeats)
    if not left.positions:
        missing["positions"] = "none"
    return missing


def _let_mm2_mirror(source: KafkaCluster, target: KafkaCluster, work: Path) -> None:
    """Let MirrorMaker 2 run until it has done everything.

    Records come when its checkpoint tasks read offset syncs already. Of syncs from before, a task knows the last one
    only, and translates no older offset, ever (Kafka class OffsetSyncStore). Of a partition's syncs a source task drops
    all but the last while ten others are on their way (OffsetSyncWriter): payments, which have few, come alone.
    """
    text = properties(source, target)
    with MirrorMaker2(text, heap="512m", jit="quick", version=MM2_VERSION, work_dir=work) as mm2:

        def reading() -> bool:
            mm2.process.require_alive()
            return len(SYNCS_READ.findall(mm2.process.log.read_text())) >= TASKS * len(FLOWS)

        missing: dict[str, object] = {}

        def done() -> bool:
            mm2.process.require_alive()
            missing.clear()
            missing.update(_missing(target))
            return not missing

        def paid() -> bool:
            mm2.process.require_alive()
            copies = {remote(letter, f"{letter}-payments") for letter in FLOWS}
            there = consume_topics(target, copies & topics(target).keys())
            return sum(map(len, there.values())) == len(FLOWS) * RECORDS["payments"]

        wait_for(reading, MM2_S, "all checkpoint tasks of MirrorMaker 2 have begun")
        pay(source)
        wait_for(paid, MM2_S, "MirrorMaker 2 has copied the payments")
        fill(source)
        try:
            wait_for(done, MM2_S, "MirrorMaker 2 has done everything")
        except TimeoutError as error:
            wrong = [line for line in mm2.process.log.read_text().splitlines() if " ERROR " in line]
            raise HarnessError("\n".join([str(error), f"missing: {missing}", *wrong])) from error
        mm2.stop()


def _at_end(letter: str) -> Set[tuple[Place, Committed]]:
    """Where the group at the end of its topics is to stand on the target."""
    orders, audit = remote(letter, f"{letter}-orders"), remote(letter, f"{letter}-audit.v1")
    ends = {(orders, 0): Committed(ORDERS), (orders, 2): Committed(ORDERS), (audit, 0): Committed(100, "note")}
    return ends.items()


def _on_the_way(letter: str) -> dict[str, dict[Place, int]]:
    """Where twinlog puts groups that stand somewhere within their topics."""
    orders, payments = (remote(letter, f"{letter}-{name}") for name in ("orders", "payments"))
    # Of the first transaction 20 records were copied, and not its marker.
    return {
        f"{letter}-midway": {(orders, 0): 1, (orders, 1): 307, (orders, 2): 599},
        f"{letter}-paid": {(payments, 1): 20},
        # One of three transactions was rolled back.
        f"{letter}-all-paid": {(payments, 1): 40},
    }


def _clear_source(source: KafkaCluster) -> None:
    """Remove what mirroring left on the source, so that the next begins as the first did."""
    for name in topics(source):
        if name == "heartbeats" or name.startswith("mm2-"):
            delete_topic(source, name)


@pytest.fixture(scope="module")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parity]:
    source, first, second = (KafkaCluster(name, acls=True, heap="256m") for name in ("left", "right-mm2", "right"))
    run = RunTwinlog(tmp_path_factory.mktemp("twinlog"))
    try:
        for cluster in (source, first, second):
            cluster.start_async()
        for cluster in (source, first, second):
            cluster.wait_ready()
        prepare(source)
        _let_mm2_mirror(source, first, tmp_path_factory.mktemp("mm2"))
        left_by_mm2 = _look(source, first)
        _clear_source(source)
        process = run("left, mid, far, right", properties(source, second).partition("\n")[2])
        left_by_twinlog = _settle(process, left_by_mm2, source, second)
        originals = consume_topics(source, [f"{letter}-{name}" for letter in FLOWS for name in RECORDS])
        yield Parity(left_by_mm2, left_by_twinlog, originals, process.log)
    finally:
        run.close()
        for cluster in (source, first, second):
            cluster.close()


def _settle(process: MirrorProcess, wanted: Left, source: KafkaCluster, target: KafkaCluster) -> Left:
    """Wait until nothing is left to explain, or for a while; the tests report what is wrong then."""
    last: list[Left] = []

    def same() -> bool:
        assert process.alive, process.log
        if not last and not _complete(target):
            return False
        last[:] = [_look(source, target)]
        exact = all(
            last[0].offsets(group) == places for letter in FLOWS for group, places in _on_the_way(letter).items()
        )
        return exact and not _unexplained(wanted.facts(), last[0].facts())

    with contextlib.suppress(TimeoutError):
        wait_for(same, TWINLOG_S, "twinlog leaves the same")
    process.terminate()
    return last[0] if last else _look(source, target)


def test_topics_and_their_settings(parity: Parity) -> None:
    parity.require_equal("topic ")
    for letter in FLOWS:
        for name in TOPICS.keys() - RECORDS.keys():
            assert remote(letter, f"{letter}-{name}") not in parity.twinlog.target.topics


def test_acls(parity: Parity) -> None:
    parity.require_equal("acl ")


@pytest.mark.parametrize("letter", FLOWS)
def test_records(parity: Parity, letter: str) -> None:
    for name, count in RECORDS.items():
        copy = remote(letter, f"{letter}-{name}")
        assert len(parity.mm2.records[copy]) == count
        assert seen(parity.twinlog.records[copy]) == seen(parity.mm2.records[copy])


def test_heartbeats(parity: Parity) -> None:
    parity.require_equal("heartbeat ")


def test_checkpoints(parity: Parity) -> None:
    parity.require_equal("checkpoint ")


def test_group_offsets(parity: Parity) -> None:
    parity.require_equal("group ")


def test_positions(parity: Parity) -> None:
    parity.require_equal("position ")


def test_offset_syncs(parity: Parity) -> None:
    parity.require_equal("offset sync ")


@pytest.mark.parametrize("system", ["mm2", "twinlog"])
def test_every_offset_sync_names_a_record_and_its_copy(parity: Parity, system: str) -> None:
    left: Left = getattr(parity, system)
    syncs = [sync for one in (left.source, left.target) for many in one.offset_syncs.values() for sync in many]
    assert {sync.topic for sync in syncs} >= {f"{letter}-orders" for letter in FLOWS}
    copies = {name: _by_offset(records) for name, records in left.records.items()}
    sources = {name: _by_offset(records) for name, records in parity.records.items()}
    for sync in syncs:
        if sync.topic != "heartbeats":
            copy = copies[remote(sync.topic[0], sync.topic)][sync.partition, sync.downstream]
            assert copy.content == sources[sync.topic][sync.partition, sync.upstream].content, sync


@pytest.mark.parametrize("letter", FLOWS)
def test_translations_are_exact(parity: Parity, letter: str) -> None:
    for group, places in _on_the_way(letter).items():
        for left in (parity.mm2, parity.twinlog):
            found = left.offsets(group)
            assert all(found[place] <= places[place] for place in places)
            if left is parity.twinlog:
                assert found == places
                checkpoints = {
                    (one.topic, one.partition): one.downstream
                    for many in left.target.checkpoints.values()
                    for one in many
                    if one.group == group
                }
                assert checkpoints == places


def _by_offset(records: list[Record]) -> dict[tuple[int, int], Record]:
    return {(record.partition, record.offset): record for record in records}
