"""Several `twinlog run` of one file: one runs a flow, the others stand by, whatever becomes of it."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.checks.checker import SLOW_TICK_S, Arrivals, Load, require_clean
from harness.child import send
from harness.cluster import KafkaCluster
from harness.connect.mm2 import MirrorMaker2
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.process.scratch import sweep

pytestmark = pytest.mark.scenario

START_S = 240.0
STILL_S = 0.5
"""So long nothing has arrived when a process has stopped; under steady load something arrives many times a second."""

PARTITIONS = 2


def everything(process: MirrorProcess) -> list[psutil.Process]:
    """The driver, Spark and its Python workers."""
    return [psutil.Process(process.pid), *process.descendants()]


def pause_after(target: KafkaCluster, remote: str, act: Callable[[], None]) -> float:
    """Seconds for which nothing arrived, from when something was done until records came again."""
    with Arrivals(target, remote, PARTITIONS) as arrivals:
        act()
        wait_for(lambda: arrivals.longest_pause_s > STILL_S, 60, "nothing arrives any more")
        before = arrivals.count
        wait_for(lambda: arrivals.count > before, 60, "records arrive again")
        return arrivals.longest_pause_s


def leads(process: MirrorProcess, times: int = 1) -> None:
    process.wait_for_line(r"left->right: this process .* runs the flow", START_S, times=times)


def stands_by(process: MirrorProcess, leader: int, times: int = 1) -> None:
    process.wait_for_line(rf"left->right: standing by for \S+-{leader} \(since ", START_S, times=times)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory of what a test starts; its name is short enough for sockets."""
    place = Path(tempfile.mkdtemp(prefix="twinlog-tmp-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    shutil.rmtree(place, ignore_errors=True)


def test_another_process_takes_over_from_one_that_freezes_and_from_one_that_dies(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, topic_name: str, temporary: Path
) -> None:
    left, right = clusters
    remote = f"left.{topic_name}"
    create_topic(left, topic_name, PARTITIONS)
    file = flow_properties("left->right", left, right, {"topics": topic_name})
    with Load(left, topic_name, PARTITIONS, rate=500, size=500, tick_s=SLOW_TICK_S) as load:
        first = run_twinlog("left, right", file)
        leads(first)
        second = run_twinlog("left, right", f"{file}left->right.tasks.max = 2\nleft.consumer.fetch.min.bytes = 2\n")
        stands_by(second, first.pid)
        # Both processes log what differs.
        warning = second.wait_for_line("the settings of this process differ from those of")
        assert f"-{first.pid}, which runs the flow: left.consumer.fetch.min.bytes, tasks.max;" in warning
        first.wait_for_line(rf"-{second.pid} stands by with other settings than this process: .*, tasks\.max$")
        second.wait_for_line(
            rf"standing by for \S+-{first.pid} .* its left\.consumer\.fetch\.min\.bytes, tasks\.max differ"
        )
        wait_for(lambda: offsets(right, remote, 0)[1] > 0, START_S, "the first process copies")

        second.wait_for_line("ready to take over", START_S)

        frozen = everything(first)
        frozen_s = pause_after(right, remote, lambda: send(signal.SIGSTOP, frozen))
        leads(second)
        send(signal.SIGCONT, frozen)
        first.wait_for_line("this process was silent for too long")
        stands_by(first, second.pid)

        killed_s = pause_after(right, remote, second.kill)
        leads(first, times=2)

    total = load.total
    wait_for(
        lambda: sum(offsets(right, remote, part)[1] for part in range(PARTITIONS)) >= total, 60, "everything is copied"
    )
    assert first.terminate() == 0
    assert require_clean(left, topic_name, right, remote) == total

    def swept() -> bool:
        # As the next start does: the one that was killed could not remove what it had.
        sweep([temporary])
        return not list(temporary.iterdir())

    wait_for(swept, 60, "nothing is left of any of them")
    # Shown by -s: what an operator sees of each.
    sys.stdout.write(f"nothing arrived after SIGSTOP {frozen_s:.1f} s, SIGKILL {killed_s:.1f} s\n")
    assert "Traceback" not in first.log + second.log
    assert not re.search(r"^\S+ \S+ ERROR ", first.log + second.log, re.MULTILINE)


def test_two_processes_share_two_flows_and_are_restarted_one_by_one(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    one, other = clusters
    there, back = (create_topic(cluster, new_name("t"), PARTITIONS) for cluster in clusters)
    ways = ((one, there, other, f"here.{there}"), (other, back, one, f"away.{back}"))
    file = flow_properties("here->away", one, other, {"topics": there})
    file += flow_properties("away->here", other, one, {"topics": back})

    def goes_on(more: int = 100) -> None:
        for (_, _, target, remote), load in zip(ways, loads, strict=True):
            wanted = load.total + more
            wait_for(
                lambda target=target, remote=remote, wanted=wanted: (
                    remote in topics(target)  # type: ignore[misc]
                    and sum(offsets(target, remote, part)[1] for part in range(PARTITIONS)) >= wanted
                ),
                START_S,
                f"{remote} has {wanted} records",
            )

    def handed_over(giver: MirrorProcess, taker: MirrorProcess, times: int = 1) -> None:
        line = giver.wait_for_line(
            rf": handed over to \S+-{taker.pid}, which runs 0 of the flows, this process 2$", START_S
        )
        flow = line.split()[3].rstrip(":")
        taker.wait_for_line(rf" {flow}: this process .* runs the flow", START_S, times=times)
        giver.wait_for_line(rf" {flow}: standing by for \S+-{taker.pid} \(since ", START_S)

    loads = tuple(Load(cluster, topic, PARTITIONS, rate=500, tick_s=SLOW_TICK_S) for cluster, topic, *_ in ways)
    with loads[0], loads[1]:
        first = run_twinlog("here, away", file)
        first.wait_for_line(r"this process .* runs the flow", START_S, times=2)
        goes_on()
        second = run_twinlog("here, away", file)
        second.wait_for_line("ready to take over", START_S)
        handed_over(first, second)
        goes_on()

        # A rolling restart, as it is documented.
        with Arrivals(other, ways[0][3], PARTITIONS) as arrivals, Arrivals(one, ways[1][3], PARTITIONS) as others:
            assert first.terminate() == 0
            second.wait_for_line(r"this process .* runs the flow", START_S, times=2)
            first.restart()
            first.wait_for_line("ready to take over", START_S)
            handed_over(second, first)
            goes_on()
            pauses = arrivals.longest_pause_s, others.longest_pause_s

        second.kill()
        first.wait_for_line(r"this process .* runs the flow", START_S, times=2)
        goes_on()
    goes_on(0)
    assert first.terminate() == 0
    # Shown by -s: what an operator sees of a rolling restart.
    sys.stdout.write(f"nothing arrived for {pauses[0]:.1f} s and {pauses[1]:.1f} s\n")
    for (source, topic, target, remote), load in zip(ways, loads, strict=True):
        assert require_clean(source, topic, target, remote) == load.total
    for process in (first, second):
        assert "Traceback" not in process.log
        assert "to release their partitions" not in process.log


def copied(target: KafkaCluster, remote: str, count: int) -> None:
    wait_for(
        lambda: remote in topics(target) and offsets(target, remote)[1] >= count,
        START_S,
        f"{remote} has {count} records",
    )


def test_mirror_maker_2_and_twinlog_keep_each_other_out(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, topic_name: str, tmp_path: Path
) -> None:
    upper, lower = clusters
    remote = f"upper.{topic_name}"
    create_topic(upper, topic_name)
    produce(upper, topic_name, numbered(10))
    # Aliases of its own: MirrorMaker 2 would not start beside what another test left in a group.
    file = flow_properties("upper->lower", upper, lower, {"topics": topic_name, "emit.heartbeats.enabled": "false"})
    file += "lower->upper.emit.heartbeats.enabled = false\n"
    factors = ("config.storage", "offset.storage", "status.storage", "offset-syncs.topic", "checkpoints.topic")
    file += "".join(f"{name}.replication.factor = 1\n" for name in factors)

    def mirror_maker(number: int) -> MirrorMaker2:
        home = tmp_path / f"mm2-{number}"
        return MirrorMaker2(f"clusters = upper, lower\n{file}", heap="384m", jit="quick", work_dir=home)

    with mirror_maker(1) as running:
        copied(lower, remote, 10)
        process = run_twinlog("upper, lower", file)
        line = process.wait_for_line("MirrorMaker 2 still runs this flow: group upper-mm2 of lower has the members ")
        assert "at 127.0.0.1; stop it, twinlog waits and takes over" in line
        assert "lease" not in process.log
        assert running.stop()
    process.wait_for_line("upper->lower: this process .* runs the flow")
    produce(upper, topic_name, numbered(10, start=10))
    copied(lower, remote, 20)

    with mirror_maker(2) as running:
        log = running.process.log
        wait_for(lambda: "InconsistentGroupProtocol" in log.read_text(), 60, "MirrorMaker 2 is refused")

    # Who wants to end when all is copied cannot see that while another process copies.
    hasty = run_twinlog("upper, lower", file, "--until", "caught-up")
    assert hasty.wait(START_S) == 1
    hasty.wait_for_line(rf"upper->lower: FAILED: \S+-{process.pid} \(since .*\) runs this flow already")
    assert process.terminate() == 0
    assert sorted(int(record.value or b"") for record in consume(lower, remote)) == list(range(20))


def test_two_processes_that_end_when_all_is_copied_wait_for_each_other(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    near, far = clusters
    there, back = new_name("t"), new_name("t")
    create_topic(near, there)
    create_topic(far, back)
    produce(near, there, numbered(10))
    produce(far, back, numbered(10))
    file = flow_properties("near->far", near, far, {"topics": there})
    file += flow_properties("far->near", far, near, {"topics": back})

    both = [run_twinlog("near, far", file, "--until", "caught-up") for _ in range(2)]

    assert [one.wait(START_S) for one in both] == [0, 0], "\n\n".join(one.log for one in both)
    for target, remote in ((far, f"near.{there}"), (near, f"far.{back}")):
        assert sorted(int(record.value or b"") for record in consume(target, remote)) == list(range(10))
    for flow in ("near->far", "far->near"):
        # Each of the two looks itself, whoever comes first.
        assert all(f"{flow}: caught up" in one.log for one in both)
        assert sum(" catches up with this flow; once it has ended" in one.log for one in both) >= 1
    assert not any("ERROR" in one.log or "Traceback" in one.log for one in both)
