"""`mm2.properties` changes while its flows run: what is taken over, what needs a restart, and what is wrong in it."""

from __future__ import annotations

import json
import logging
import re
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from harness.checks.checker import SLOW_TICK_S, Arrivals, Load, require_clean
from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records, topics
from harness.wait import slowness, wait_for
from tests.integration.copier.test_exactly_once_run import copiers
from tests.integration.flows.arriving import end_of
from tests.integration.flows.light_flow import copy_what_is_there
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

log = logging.getLogger(__name__)

COPY_S = 180.0
PARTITIONS = 2
PAUSE_S = 4.0
POLICY = {"twinlog.oversized.record.policy": "stop"}


def change(process: MirrorProcess, before: str, after: str) -> int:
    """Write another version of a file; the line that has changed."""
    text = process.file.read_text()
    assert before in text
    process.file.write_text(text.replace(before, after))
    return text[: text.index(before)].count("\n") + 1


def hang_up(process: MirrorProcess) -> None:
    """SIGHUP, as `systemctl reload` sends it."""
    psutil.Process(process.pid).send_signal(signal.SIGHUP)


def has(process: MirrorProcess, cluster: KafkaCluster, remote: str, count: int) -> None:
    """Wait until a remote topic has so many records in its first partition."""

    def copied() -> bool:
        assert process.alive, process.log
        return end_of(cluster, remote, 0) >= count

    try:
        wait_for(copied, COPY_S, f"{remote} has {count} records")
    except TimeoutError as late:
        raise AssertionError(f"{late}\n{process.log}") from late


def arrives(arrivals: Arrivals) -> None:
    """Wait until records arrive that were written from now on."""
    count = arrivals.count
    wait_for(lambda: arrivals.count > count + 100, COPY_S, "records arrive")


def test_topics_come_while_others_are_copied_on(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    here, more = create_topic(left, new_name("t"), PARTITIONS), create_topic(left, new_name("t"), PARTITIONS)
    produce(left, more, numbered(100))
    process = run_twinlog("left, right", flow_properties("left->right", left, right, {"topics": here}))
    with Load(left, here, PARTITIONS, rate=500, tick_s=SLOW_TICK_S) as load:
        process.wait_for_tasks("left->right")
        wait_for(lambda: not set(copiers(process, right)) & set(process.bridges()), COPY_S, "the bridge has left")
        has(process, right, f"left.{here}", 1)
        before = copiers(process, right)
        with Arrivals(right, f"left.{here}", PARTITIONS) as arrivals:
            # A version that is wrong changes nothing.
            line = change(process, f"topics = {here}", f"topics = {here}, (oops")
            hang_up(process)
            process.wait_for_line(f"{process.file}:{line}: left->right.topics: an unclosed parenthesis")
            process.wait_for_line("this version is wrong, the earlier version stays in effect")
            # What needs a restart is named, and the rest is taken over.
            change(process, f"topics = {here}, (oops", f"topics = {here}, {more}\nleft->right.tasks.max = 2")
            hang_up(process)
            topic_line = rf"{process.file}:{line}: left->right.topics = {here}, {more} \({here} before\)"
            process.wait_for_line(f"{topic_line}: taken over by left->right$")
            process.wait_for_line(rf"{process.file}:{line + 1}: left->right.tasks.max = 2 .* needs a restart")
            process.wait_for_line(
                f"audit: {process.file} was read again for SIGHUP; taken over: left->right.topics; "
                "needs a restart: left->right.tasks.max"
            )
            has(process, right, f"left.{more}", 100)
            arrives(arrivals)
            log.info("longest pause with another filter: %.2f s", arrivals.longest_pause_s)
        # The same copiers in the same lease.
        assert copiers(process, right) == before
        assert "lease 2" not in process.log
    # Less is copied as well, and what is copied stays.
    change(process, f"topics = {here}, {more}", f"topics = {here}")
    hang_up(process)
    process.wait_for_line("left->right: lease 1: 2 partitions", times=2)
    produce(left, more, numbered(1))
    produce(left, here, numbered(1, size=300))
    has(process, right, f"left.{here}", end_of(left, here, 0))
    assert end_of(right, f"left.{more}", 0) == 100
    assert process.terminate() == 0
    assert load.total > 0
    assert "Traceback" not in process.log


@pytest.mark.parametrize("mode", [pytest.param("disabled", marks=pytest.mark.scenario), "enabled"])
def test_a_policy_changes_with_a_pause_and_without_a_record_lost_or_repeated(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str], mode: str
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"), PARTITIONS)
    other = create_topic(right, new_name("t"))
    properties = flow_properties("left->right", left, right, {"topics": topic, **POLICY})
    properties += flow_properties("right->left", right, left, {"topics": other})
    properties += f"right.exactly.once.source.support = {mode}\nleft.consumer.isolation.level = read_committed\n"
    process = run_twinlog("left, right", properties)
    with Load(left, topic, PARTITIONS, rate=500, tick_s=SLOW_TICK_S) as load:
        has(process, right, f"left.{topic}", 1)
        wait_for(lambda: f"right.{other}" in topics(left), COPY_S, "the other flow runs")
        policies = ("stop", "skip", "stop")
        for number, (old, new) in enumerate(pairwise(policies), start=1):
            with Arrivals(right, f"left.{topic}", PARTITIONS) as arrivals:
                change(process, f"record.policy = {old}", f"record.policy = {new}")
                hang_up(process)
                process.wait_for_line(
                    "audit: .* taken over: left->right.twinlog.oversized.record.policy;", times=number
                )
                process.wait_for_line("left->right: the copiers end, and begin with the new settings", times=number)
                arrives(arrivals)
                log.info("longest pause with another policy: %.2f s", arrivals.longest_pause_s)
                # It would be as long as a start of Spark.
                assert arrivals.longest_pause_s < PAUSE_S * slowness()
        assert load.errors == []
        assert "right->left: the copiers end" not in process.log, "the other flow has the copier that it had"
        assert "is gone" not in process.log, "no copier was lost"
    assert process.log.count("this process (") == 2, "nothing was begun as at the start"
    assert process.terminate() == 0
    copy_what_is_there(process.file, "left->right")
    assert require_clean(left, topic, right, f"left.{topic}") == load.total
    assert "Traceback" not in process.log


def reload(file: Path, *options: str) -> tuple[int, str]:
    """`twinlog reload`, and what it prints."""
    result = CliRunner().invoke(app, ["reload", str(file), *options])
    log.info("twinlog reload %s: %d\n%s", " ".join(options), result.exit_code, result.output)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def beats_alone(process: MirrorProcess) -> bool:
    """Whether a process writes the heartbeats of right->left, or stands by for it, since the flow was disabled."""
    since = process.log.rpartition("right->left.enabled = false")[2]
    return bool(re.search("right->left: (not enabled, only heartbeats are written|standing by for )", since))


@pytest.mark.scenario
def test_every_process_of_a_file_is_asked_from_any_host(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    left, right = clusters
    here, more, back = (create_topic(cluster, new_name("t")) for cluster in (left, left, right))
    for topic in (here, more):
        produce(left, topic, numbered(10))
    produce(right, back, numbered(10))
    text = flow_properties("left->right", left, right, {"topics": here})
    text += flow_properties("right->left", right, left, {"topics": back}).replace("enabled = true", "enabled = false")
    first, second = run_twinlog("left, right", text), None
    has(first, right, f"left.{here}", 10)
    second = run_twinlog("left, right", text)
    second.wait_for_line(r"left->right: standing by for \S+, |left->right: standing by for ")
    # A host that has neither process, nor its files.
    mine = tmp_path / "mine.properties"

    original = first.file.read_text()

    def write(*files: Path, also: str = "") -> None:
        version = original.replace(f"topics = {here}\n", f"topics = {here}, {more}\n") + also
        for file in files:
            file.write_text(version)

    # What is wrong here reaches nobody.
    write(mine, also="left->right.groups = (x\n")
    code, said = reload(mine)
    assert (code, ": error: " in said) == (2, True)
    # One of the two has another version, which is wrong.
    write(mine, first.file)
    line = change(second, f"topics = {here}", "topics = (oops")
    code, said = reload(mine)
    assert code == 2, said
    assert f"  left->right: runs with its new settings\n    {first.file}:" in said
    assert f"left->right.topics = {here}, {more} ({here} before): taken over" in said
    assert f"({second.file}): its file is wrong, and its flows are as before\n  {second.file}:{line}: error: " in said
    has(first, right, f"left.{more}", 10)
    assert "audit: " in first.wait_for_line(
        r"audit: .* for twinlog reload of \S+ on \S+; taken over: left->right.topics"
    )
    write(second.file)
    code, said = reload(mine)
    assert code == 0, said
    assert f"({first.file}): its file is as before" in said
    assert "left->right: stands by, and will run with its new settings" in said
    # A flow begins, and ends; the other one does not notice.
    first.wait_for_tasks("left->right")
    wait_for(lambda: not set(copiers(first, right)) & set(first.bridges()), COPY_S, "the bridge has left the target")
    before = copiers(first, right)
    on = "right->left.enabled = true\n"
    write(mine, first.file, second.file, also=f"{on}tasks.max = 7\n")
    code, said = reload(mine, "--dry-run", "-o", "json")
    assert code == 1
    answers = json.loads(said)["processes"]
    assert {answer["file"] for answer in answers} == {str(first.file), str(second.file)}
    assert all(answer["flows"]["right->left"].startswith("starts with the next start") for answer in answers)
    assert "tasks.max" not in first.log
    write(mine, first.file, second.file, also=on)
    code, said = reload(mine)
    assert code == 0, said
    assert said.count("right->left: starts") == 2
    has(first, left, f"right.{back}", 10)
    write(mine, first.file, second.file)
    code, said = reload(mine)
    assert (code, said.count("right->left: stops")) == (0, 2), said
    # Either process may have led the flow.
    for process in (first, second):
        wait_for(lambda: beats_alone(process), 60, "the flow writes heartbeats only")  # noqa: B023
    produce(right, back, numbered(1))
    produce(left, here, numbered(1))
    has(first, right, f"left.{here}", 11)
    assert copiers(first, right) == before
    # What stood by runs with what it took over.
    first.kill()
    produce(left, more, numbered(1))
    has(second, right, f"left.{more}", 11)
    assert end_of(left, f"right.{back}", 0) == 10
    assert second.terminate() == 0
    wait_for(lambda: reload(mine)[0] == 1, COPY_S, "nobody is left", every_s=0.5)
    assert "Traceback" not in first.log + second.log


@pytest.mark.parametrize(
    ("policy", "trouble"),
    [
        pytest.param("stop", "left->right: FAILED: .*gap.policy", marks=pytest.mark.scenario),
        ("hold", "TW-GAP-01: left->right: .* is held at source offset 10"),
    ],
)
def test_what_a_policy_keeps_from_being_copied_is_copied_with_another_one(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
    policy: str,
    trouble: str,
) -> None:
    left, right = clusters
    holey, whole = create_topic(left, new_name("t")), create_topic(right, new_name("t"))
    properties = flow_properties("left->right", left, right, {"topics": holey, "twinlog.gap.policy": policy})
    properties += flow_properties("right->left", right, left, {"topics": whole})
    produce(left, holey, numbered(10))
    before = tmp_path / "before.properties"
    before.write_text(f"clusters = left, right\n{properties}")
    copy_what_is_there(before, "left->right")
    assert end_of(right, f"left.{holey}", 0) == 10
    produce(left, holey, numbered(10, start=10))
    delete_records(left, holey, 15)
    process = run_twinlog("left, right", properties)
    process.wait_for_line(trouble)
    change(process, f"gap.policy = {policy}", f"gap.policy = stop\nleft->right.twinlog.gap.policy.{holey} = skip")
    code, said = reload(process.file)
    assert code == 0, said
    assert f"gap.policy.{holey} = skip (not written before): taken over, the copiers of the flow begin again" in said
    has(process, right, f"left.{holey}", 15)
    assert process.terminate() == 0
