"""Topics go from the real MirrorMaker 2 to twinlog one by one under load, and back; MirrorMaker 2 copies the rest.

The source is read to its end, so it is known of each record by which program it was copied, and how often.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.checks.checker import SLOW_TICK_S, Identity, Load, Verdict, check, identify
from harness.checks.internal_records import decode_position
from harness.cluster import KafkaCluster
from harness.connect.mm2 import EVERY_SECOND, ONE_REPLICA, MirrorMaker2
from harness.consume import Record, consume
from harness.groups import commit_offsets, group_offsets
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess
from tests.integration.parity import MM2_VERSION
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

log = logging.getLogger(__name__)

pytestmark = pytest.mark.scenario
PARTITIONS = 2
RATE = 100
MORE = 200
"""Records of each topic that are copied in each phase at least."""
DEADLINE_S = 240.0
CLUSTERS = "wave, shore"
A, B, C = "v-ale", "v-bread", "v-corn"
GROUP = "v-reader"
POSITIONS = "mm2-offsets.wave.internal"


def properties(source: KafkaCluster, target: KafkaCluster, *names: str) -> str:
    lines = {
        "wave.bootstrap.servers": source.bootstrap,
        "shore.bootstrap.servers": target.bootstrap,
        "shore.offset.flush.interval.ms": "2000",
        "wave->shore.enabled": "true",
        "wave->shore.topics": ", ".join(names),
        "wave->shore.groups": GROUP,
        "wave->shore.heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "consumer.poll.timeout.ms": "200",
        **EVERY_SECOND,
        **ONE_REPLICA,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


@dataclass
class Waves:
    """The steps of the hand-over; `twinlogs` are ranges of remote offsets in which twinlog copied a topic."""

    source: KafkaCluster
    target: KafkaCluster
    home: Path
    run: RunTwinlog
    begun: dict[str, dict[int, int]] = field(default_factory=dict)
    twinlogs: dict[str, list[tuple[dict[int, int], dict[int, int]]]] = field(default_factory=lambda: defaultdict(list))
    stored: dict[str, dict[int, int]] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    written: dict[str, list[Record]] = field(default_factory=dict)
    copies: dict[str, list[Record]] = field(default_factory=dict)
    mm2: MirrorMaker2 | None = None
    twinlog: MirrorProcess | None = None
    starts: int = 0

    def start_mm2(self, *names: str) -> None:
        """MirrorMaker 2 runs with these topics from now on, after an orderly stop."""
        self.stop_mm2()
        self.starts += 1
        text = f"clusters = {CLUSTERS}\n{properties(self.source, self.target, *names)}"
        home = self.home / f"mm2-{self.starts}"
        self.mm2 = MirrorMaker2(text, heap="384m", jit="quick", version=MM2_VERSION, work_dir=home).start()

    def stop_mm2(self) -> None:
        if self.mm2 is not None:
            assert self.mm2.stop(120.0)

    def start_twinlog(self, *names: str) -> MirrorProcess:
        """twinlog runs with these topics, and with a group of its own."""
        text = f"{properties(self.source, self.target, *names)}shore.group.id = wave-mm2-twinlog\n"
        self.twinlog = self.run(CLUSTERS, text)
        return self.twinlog

    def stop_twinlog(self, *names: str) -> None:
        """End twinlog, which gives back these topics."""
        assert self.twinlog is not None
        assert self.twinlog.terminate() == 0, self.twinlog.log
        for name in names:
            self.twinlogs[name].append((self.begun.pop(name), self.ends(name)))

    def took(self, *names: str) -> None:
        """Wait until twinlog copies topics, and note the ends that MirrorMaker 2 left."""
        assert self.twinlog is not None
        self.twinlog.wait_for_line(f"copied here from now on: {', '.join(names)}$", DEADLINE_S)
        for name in names:
            # At most the records of MirrorMaker 2 are there: twinlog stores a position before its first record.
            self.begun[name] = self.position(name)

    def ends(self, name: str) -> dict[int, int]:
        there = f"wave.{name}"
        return {part: offsets(self.target, there, part)[1] for part in range(PARTITIONS)}

    def position(self, name: str) -> dict[int, int]:
        """The next source offset of each partition; on the target it is the same number while nothing is repeated."""
        decoded = [decode_position(record) for record in consume(self.target, POSITIONS)]
        return {
            one.place[1]: one.last_copied + 1
            for one in decoded
            if one.place is not None and one.place[0] == name and one.last_copied is not None
        }

    def more(self, *names: str) -> None:
        """Wait until so many more records of these topics are on the target."""
        exists = [name for name in names if f"wave.{name}" in topics(self.target)]
        before = {name: self.ends(name) for name in exists}

        def copied() -> bool:
            self.require_alive()
            if any(f"wave.{name}" not in topics(self.target) for name in names):
                return False
            return all(
                end >= before.get(name, {}).get(part, 0) + MORE // PARTITIONS
                for name in names
                for part, end in self.ends(name).items()
            )

        wait_for(copied, DEADLINE_S, f"{names} are copied")

    def require_alive(self) -> None:
        if self.mm2 is not None:
            self.mm2.process.require_alive()

    def caught_up(self, *names: str) -> None:
        """Wait until every record of the source has arrived."""

        def done() -> bool:
            self.require_alive()
            return all(
                offsets(self.source, name, part)[1] <= end for name in names for part, end in self.ends(name).items()
            )

        wait_for(done, DEADLINE_S, "everything is copied")

    def commit(self, *names: str) -> None:
        """The group commits near the end of each topic until its offset on the target has followed."""
        wanted: dict[tuple[str, int], int] = {}
        earlier = self.translated()

        def came() -> bool:
            self.require_alive()
            wanted.update({(name, part): at - 20 for name in names for part, at in self.ends(name).items()})
            commit_offsets(self.source, {GROUP: wanted})
            now = self.translated()
            return all(
                now.get((f"wave.{name}", part), -1) > earlier.get((f"wave.{name}", part), -1)
                for name in names
                for part in range(PARTITIONS)
            )

        wait_for(came, DEADLINE_S, f"the offsets of {names} come across", every_s=1.0)

    def translated(self) -> dict[tuple[str, int], int]:
        found = group_offsets(self.target, [GROUP]).get(GROUP, {})
        return {place: one.offset for place, one in found.items()}

    def again(self, name: str) -> tuple[int, int]:
        """Records of a topic that were copied before: by twinlog, and by MirrorMaker 2."""
        first: set[tuple[int, Identity]] = set()
        own = others = 0
        for record in sorted(self.copies[name], key=lambda one: (one.partition, one.offset)):
            identity = identify(record)
            assert identity is not None
            if (record.partition, identity) not in first:
                first.add((record.partition, identity))
            elif any(
                begin.get(record.partition, 0) <= record.offset < end[record.partition]
                for begin, end in self.twinlogs[name]
            ):
                own += 1
            else:
                others += 1
        return own, others


@pytest.fixture(scope="module")
def waves(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Waves]:
    source, target = source_cluster, target_cluster
    for name in (A, B, C):
        create_topic(source, name, PARTITIONS)
    here = Waves(source, target, tmp_path_factory.mktemp("waves"), RunTwinlog(tmp_path_factory.mktemp("twinlog")))
    try:
        with ExitStack() as stack:
            loads = [
                stack.enter_context(Load(source, name, PARTITIONS, rate=RATE, name=name, tick_s=SLOW_TICK_S))
                for name in (A, B, C)
            ]
            here.start_mm2(A, B, C)
            here.more(A, B, C)
            _first_wave(here)
            # The second wave: MirrorMaker 2 keeps c.
            here.stop_twinlog(A)
            here.start_twinlog(A, B).wait_for_line(f"not copied here: {B}: MirrorMaker 2 runs", DEADLINE_S)
            here.begun[A] = here.ends(A)
            here.start_mm2(C)
            here.took(B)
            here.more(A, B, C)
            here.commit(A, B, C)
            # The way back, one topic after the other.
            here.stop_twinlog(A, B)
            here.start_twinlog(A)
            here.begun[A] = here.ends(A)
            here.start_mm2(B, C)
            here.more(A, B, C)
            here.stop_twinlog(A)
            here.start_mm2(A, B, C)
            here.more(A, B, C)
            for load in loads:
                load.stop()
            here.caught_up(A, B, C)
            here.commit(A, B, C)
            here.stop_mm2()
        here.written = {name: consume(source, name) for name in (A, B, C)}
        here.copies = {name: consume(target, f"wave.{name}") for name in (A, B, C)}
        yield here
    finally:
        if here.mm2 is not None:
            here.mm2.kill()
        here.run.close()


def _first_wave(here: Waves) -> None:
    """twinlog waits for a topic while MirrorMaker 2 copies it, and takes it over once MirrorMaker 2 is without it."""
    process = here.start_twinlog(A)
    here.seen["line"] = process.wait_for_line(f"not copied here: {A}: MirrorMaker 2 runs", DEADLINE_S)
    result = CliRunner().invoke(app, ["plan", str(process.file), "-o", "json"])
    here.seen["plan"] = result.stdout
    time.sleep(3)
    assert "copied here from now on" not in process.log
    here.start_mm2(B, C)
    here.took(A)
    here.more(A, B, C)


def test_twinlog_names_the_program_that_has_a_topic(waves: Waves) -> None:
    assert "group wave-mm2 of shore has the members" in waves.seen["line"]
    assert "at 127.0.0.1, and its task MirrorSourceConnector-0 copies it" in waves.seen["line"]
    (flow,) = json.loads(waves.seen["plan"])["flows"]
    (problem,) = (one for one in flow["problems"] if one["kind"] == "copied-elsewhere")
    assert problem["text"].startswith(f"{A}: MirrorMaker 2 runs")
    assert all(one["topic"] != A for one in flow["copy"]["topics"])


@pytest.mark.parametrize("name", [A, B, C])
def test_no_record_is_lost_or_damaged(waves: Waves, name: str) -> None:
    verdict = sum(check(waves.written[name], waves.copies[name]).values(), Verdict())
    assert len(waves.written[name]) > 5 * MORE
    assert (verdict.lost, verdict.corrupted, verdict.unknown) == (0, 0, 0)


@pytest.mark.parametrize("name", [A, B, C])
def test_twinlog_repeats_no_record(waves: Waves, name: str) -> None:
    own, by_mm2 = waves.again(name)
    log.warning("%s: twinlog repeated %d records, MirrorMaker 2 %d over %d starts", name, own, by_mm2, waves.starts)
    assert own == 0
    # MirrorMaker 2 stores its positions when it is stopped in order.
    assert by_mm2 == 0


@pytest.mark.parametrize("name", [A, B, C])
def test_groups_skip_no_record(waves: Waves, name: str) -> None:
    places: dict[tuple[int, Identity], int] = {}
    for record in waves.copies[name]:
        identity = identify(record)
        assert identity is not None
        places[record.partition, identity] = record.offset
    committed = {place: one.offset for place, one in group_offsets(waves.source, [GROUP])[GROUP].items()}
    translated = waves.translated()
    for part in range(PARTITIONS):
        here, there = committed[name, part], translated[f"wave.{name}", part]
        wanted = [one for one in waves.written[name] if one.partition == part and one.offset >= here]
        identities = [identity for one in wanted if (identity := identify(one)) is not None]
        assert all(places[part, identity] >= there for identity in identities), (name, part, here, there)
