"""Under load the driver, a Python worker or a broker dies. Afterwards nothing is lost, and nothing is there twice."""

from __future__ import annotations

import logging
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException

from harness.checks.checker import SLOW_TICK_S, Arrivals, Load, require_clean
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from tests.integration.flows.light_flow import LightFlow
from tests.integration.mirror_process import MirrorProcess, flow_properties
from twinlog.lease.progress import Report
from twinlog.mirror.offsets.positions import Position, PositionRecord, decode_position
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import Alias

log = logging.getLogger(__name__)

PARTITIONS = 4
RATE = 400
CATCH_UP_S = 120.0
CLEAN_STOP_S = 60.0
"""Five seconds are promised; a busy machine takes longer."""
LEASE_S = 5
ATTEMPTS = 5


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A pair of its own, because its brokers are killed; every test leaves them running."""
    source = KafkaCluster("frail-source", sasl=False, heap="384m")
    target = KafkaCluster("frail-target", sasl=False, heap="384m")
    with side_by_side(source, target) as both:
        yield both


@pytest.fixture(scope="module")
def twinlog(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorProcess]:
    """`twinlog run` for all tests of this module; positions are stored as rarely and leases are as short as can be."""
    settings = {"topics": "t-.*", "twinlog.position.interval.ms": "1000", "twinlog.lease.seconds": str(LEASE_S)}
    home: Path = tmp_path_factory.mktemp("twinlog")
    process = MirrorProcess(home, "a, b", flow_properties("a->b", *clusters, settings))
    yield process
    if process.alive:
        assert process.terminate() == 0


class Scene:
    """A topic with load on it that is being copied."""

    def __init__(
        self, source: KafkaCluster, target: KafkaCluster, twinlog: MirrorProcess, topic: str, chance: random.Random
    ) -> None:
        self.source, self.target, self.twinlog, self.topic = source, target, twinlog, topic
        self.remote = f"a.{topic}"
        self.chance = chance
        self.load = Load(source, topic, PARTITIONS, rate=RATE, tick_s=SLOW_TICK_S)

    def begin(self) -> None:
        create_topic(self.source, self.topic, PARTITIONS)
        if not self.twinlog.alive:
            self.twinlog.start()
        self.twinlog.wait_for_line(rf"created remote topic {self.remote} ")
        self.load.start()
        self.twinlog.wait_for_tasks("a->b")
        self.wait_until_copied(RATE)
        time.sleep(self.chance.uniform(0.0, 1.5))

    def ends(self) -> list[int]:
        def known() -> list[int] | None:
            try:
                return [offsets(self.target, self.remote, number)[1] for number in range(PARTITIONS)]
            except KafkaException:
                # A topic this young, or a broker that just came back.
                return None

        return wait_for(known, CATCH_UP_S, f"{self.remote} reports its ends")

    def copied(self) -> int:
        return sum(self.ends())

    def wait_until_copied(self, count: int, deadline_s: float = CATCH_UP_S) -> None:
        try:
            wait_for(lambda: self.copied() >= count, deadline_s, f"{count} records of {self.topic} are on the target")
        except TimeoutError as late:
            raise AssertionError(f"{late}, {self.copied()} are\n{self.twinlog.log}") from late

    def wait_for_progress(self) -> None:
        """Wait until more is copied than now."""
        self.wait_until_copied(self.copied() + RATE // 2)

    def behind(self) -> int:
        """Records on the target that no stored position speaks of."""
        stored = stored_positions(self.target)
        return sum(
            end - (stored[(self.topic, number)].next_target or 0) if (self.topic, number) in stored else end
            for number, end in enumerate(self.ends())
        )

    def stop_without_target(self, lose: Callable[[], None], find: Callable[[], None]) -> None:
        """A clean stop while the target is lost; nothing is left of the process."""
        started = self.twinlog.descendants()
        lose()
        try:
            time.sleep(self.chance.uniform(0.0, 1.0))
            code = self.twinlog.terminate(CLEAN_STOP_S)
        finally:
            find()
        assert code == 0
        psutil.wait_procs(started, timeout=60)
        assert [one for one in started if one.is_running()] == []

    def finish(self) -> int:
        """End the load, wait until all is copied, and judge; returns the number of records."""
        self.wait_for_progress()
        self.wait_until_copied(self.load.stop())
        return require_clean(self.source, self.topic, self.target, self.remote)


def stored_positions(target: KafkaCluster) -> dict[tuple[str, int], Position]:
    """What the positions topic has of each source partition."""
    found: dict[tuple[str, int], Position] = {}
    for record in consume(target, "mm2-offsets.a.internal"):
        headers = tuple((name, value or b"") for name, value in record.headers)
        decoded = decode_position(Alias("a"), PositionRecord(record.key or b"", record.value, headers))
        assert decoded is not None
        partition, position = decoded
        assert position is not None
        found[partition.topic, partition.partition] = position
    return found


def reports(target: KafkaCluster) -> list[Report]:
    """Every report of the flow's copiers."""
    found = [Report.decode(record.value or b"") for record in consume(target, progress_topic(Alias("a")))]
    return [report for report in found if report is not None]


@pytest.fixture
def scene(
    clusters: tuple[KafkaCluster, KafkaCluster],
    twinlog: MirrorProcess,
    new_name: Callable[[str], str],
    chance: random.Random,
) -> Scene:
    scene = Scene(*clusters, twinlog, new_name("t"), chance)
    scene.begin()
    return scene


def copying_worker(process: MirrorProcess, source: KafkaCluster) -> psutil.Process:
    """The Python worker of Spark that copies: it holds connections to the source, and is not the driver."""
    port = source.brokers[1].ports.plaintext
    workers = process.descendants()
    for worker in workers:
        # Spark ends some at any moment.
        with suppress(psutil.Error):
            lines = worker.net_connections("tcp") if "python" in worker.name() else []
            if any(line.raddr and line.raddr.port == port for line in lines):
                return worker
    raise AssertionError(f"no worker of {workers} is connected to the source")


def test_leases_end_under_load_and_then_the_copying_python_worker_is_killed(scene: Scene) -> None:
    copier = copying_worker(scene.twinlog, scene.source)
    before = len(reports(scene.target))
    with Arrivals(scene.target, scene.remote, PARTITIONS) as arrivals:
        wait_for(
            lambda: len({one.lease for one in reports(scene.target)[before:]}) >= 3,
            120,
            "two leases have ended",
            every_s=0.5,
        )
    reported = reports(scene.target)[before:]
    assert len({report.copier for report in reported}) == 1
    assert copying_worker(scene.twinlog, scene.source) == copier
    log.warning("longest pause %.3f s", arrivals.longest_pause_s)

    copier.send_signal(signal.SIGKILL)
    # More than there is now, for that may be copied already.
    scene.wait_until_copied(scene.load.total + RATE // 2)
    assert copying_worker(scene.twinlog, scene.source) != copier
    scene.finish()
    assert scene.twinlog.alive


@pytest.mark.scenario
def test_brokers_are_killed_and_stand_still(scene: Scene) -> None:
    for cluster in (scene.source, scene.target):
        cluster.kill()
        cluster.restart()
        scene.wait_for_progress()
    scene.target.suspend()
    try:
        time.sleep(3.0)
    finally:
        scene.target.resume()
    scene.finish()


def test_the_driver_is_killed_and_a_clean_stop_does_not_wait_for_a_dead_target(scene: Scene) -> None:
    behind = 0
    for _ in range(ATTEMPTS):
        started = scene.twinlog.descendants()
        assert copying_worker(scene.twinlog, scene.source) in started
        wait_for(lambda: scene.behind() > RATE // 10, 60, "records arrived that no stored position speaks of")
        scene.twinlog.kill()
        psutil.wait_procs(started, timeout=60)
        assert [one for one in started if one.is_running()] == []
        behind = scene.behind()
        scene.twinlog.start()
        if behind > 0:
            break
        # Positions were stored in the last moment, and there is nothing to resume after.
        scene.wait_for_progress()
    assert behind > 0
    log.warning("%d records to resume after", behind)
    scene.wait_for_progress()

    scene.stop_without_target(scene.target.suspend, scene.target.resume)
    scene.twinlog.start()
    scene.wait_for_progress()
    scene.stop_without_target(scene.target.kill, scene.target.restart)
    # The same code begins after what was stored, without another start of Spark.
    with LightFlow(scene.twinlog.file, "a->b"):
        scene.finish()
