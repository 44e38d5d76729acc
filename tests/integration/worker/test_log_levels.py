"""A level of the log for one of two flows of a running process: lines of its driver and tasks, none of the other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

THERE, BACK = "left->right", "right->left"
LOOK_S = 60.0
DRIVER, TASK = r"a turn of the job to", r"copier (?!bridge-)\S+: "


def debug_lines(process: MirrorProcess, flow: str, pattern: str = "") -> list[str]:
    """The debug lines of a flow in the log that match."""
    wanted = re.compile(rf" DEBUG {re.escape(flow)}: {pattern}")
    return [line for line in process.log.splitlines() if wanted.search(line)]


def asked(process: MirrorProcess, *words: str) -> dict[str, Any]:
    """What a command answers in JSON."""
    command, *rest = words
    done = CliRunner().invoke(app, [command, str(process.file), *rest, "-o", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.scenario
def test_one_of_two_flows_has_debug_lines_of_its_driver_and_its_tasks(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is the process's own.
    for name in ("log_level", "status"):
        monkeypatch.setattr(f"twinlog.ops.{name}.command.log_warnings", lambda: None)
    left, right = clusters
    here, there = create_topic(left, new_name("here"), 2), create_topic(right, new_name("there"), 2)
    process = run_twinlog(
        "left, right",
        flow_properties(THERE, left, right, {"topics": here}) + flow_properties(BACK, right, left, {"topics": there}),
    )

    def copied(count: int) -> bool:
        pairs = ((right, f"left.{here}"), (left, f"right.{there}"))
        return all(len(consume(cluster, topic)) == count for cluster, topic in pairs)

    def copy_more(count: int) -> None:
        """Copy records in both directions, so that both flows have lines to write."""
        for cluster, topic in ((left, here), (right, there)):
            produce(cluster, topic, numbered(10, start=count - 10), partition=0)
        wait_for(lambda: copied(count), LOOK_S, f"{count} records are copied in each direction")

    for flow in (THERE, BACK):
        process.wait_for_tasks(flow)
    copy_more(10)
    assert not re.search(r" DEBUG ", process.log)

    taken = asked(process, "log-level", "debug", "--flow", "left:right", "--for", "10m")
    assert (taken["flow"], taken["level"]) == (THERE, "debug")
    shown = {one["flow"]: one["log_level"] for one in asked(process, "status")["flows"]}
    assert shown == {THERE: {"level": "debug", "until_ms": taken["until_ms"]}, BACK: None}
    copy_more(20)
    wait_for(lambda: debug_lines(process, THERE, DRIVER), LOOK_S, "the driver writes debug lines")
    wait_for(lambda: debug_lines(process, THERE, f"{TASK}10 records were copied"), LOOK_S, "a task writes debug lines")
    assert debug_lines(process, BACK) == []

    # The level ends by itself.
    asked(process, "log-level", "debug", "--flow", "left:right", "--for", "1s")
    wait_for(
        lambda: asked(process, "status", "--flow", "left:right")["flows"][0]["log_level"] is None,
        LOOK_S,
        "the status shows the end of the level",
    )
    known = len(debug_lines(process, THERE))
    copy_more(30)
    assert len(debug_lines(process, THERE)) == known
    assert "Traceback" not in process.log
    assert process.terminate() == 0
