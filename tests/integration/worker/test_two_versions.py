"""An upgrade, a rollback and an end without twinlog's own topics, as docs/versions.md describes them.

The second version is this one with another number and another protocol to its tasks. It writes a field that this
version does not know into positions, reports, and the metadata of its group.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks.checker import SLOW_TICK_S, Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.jvm.tools import TOPICS, run_tool
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.integration.running import RunTwinlog
from twinlog import __version__
from twinlog.lease.messages import VERSION

SOURCE = Path(__file__).parents[3] / "src"
RELEASE = "99.0.0"
PARTITIONS = 2
MORE = 300
START_S = 240.0
CHANGES = {
    "__init__.py": [(f'__version__ = "{__version__}"', f'__version__ = "{RELEASE}"')],
    "lease/messages.py": [(f"\nVERSION = {VERSION}\n", f"\nVERSION = {VERSION + 1}\n")],
    "worker/election/member.py": [('"heir": self.heir,', '"heir": self.heir, "added_later": [1],')],
    "worker/status/report.py": [('return {"kind": KIND, **', 'return {"kind": KIND, "added_later": [1], **')],
    "mirror/offsets/positions.py": [
        ('"target": position.next_target,', '"target": position.next_target, "added_later": 1,')
    ],
}


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The folder of the second version, for PYTHONPATH."""
    tree = tmp_path / "newer"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name, changes in CHANGES.items():
        path = tree / "twinlog" / name
        text = path.read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{name}: {old}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    printed = subprocess.run(
        [sys.executable, "-m", "twinlog", "--version"],
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == f"twinlog {RELEASE}"
    return tree


def leads(process: MirrorProcess, *, times: int = 1) -> None:
    process.wait_for_line(r"this process .* runs the flow", START_S, times=times)


@pytest.mark.scenario
def test_two_versions_take_over_from_each_other_and_leave_no_gap(
    clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog, new_name: Callable[[str], str], newer: Path
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"), PARTITIONS)
    remote = f"rolled.{topic}"
    file = flow_properties("rolled->over", left, right, {"topics": topic})
    command = ["env", f"PYTHONPATH={newer}", sys.executable, "-m", "twinlog", "run"]

    def copies(process: MirrorProcess) -> None:
        wanted = load.total + MORE
        wait_for(
            lambda: process.alive and remote in topics(right) and arrived() >= wanted, START_S, "further records arrive"
        )

    def arrived() -> int:
        return sum(offsets(right, remote, part)[1] for part in range(PARTITIONS))

    with Load(left, topic, PARTITIONS, rate=200, tick_s=SLOW_TICK_S) as load:
        first = run_twinlog("rolled, over", file)
        leads(first)
        copies(first)

        # The upgrade.
        second = run_twinlog("rolled, over", file, "--conf", "spark.ui.enabled=false", command=command)
        second.wait_for_line(rf"standing by for \S+-{first.pid}", START_S)
        second.wait_for_line("ready to take over", START_S)
        assert first.terminate(120) == 0
        leads(second)
        copies(second)

        # The first version reads the reports of the second version, and stands by for it.
        first.restart()
        first.wait_for_line(rf"standing by for \S+-{second.pid}", START_S)
        status = subprocess.run(
            [sys.executable, "-m", "twinlog", "status", str(first.file)], capture_output=True, text=True, check=False
        )
        assert f"-{second.pid}" in status.stdout, status.stdout + status.stderr
        assert b"added_later" in stored(right)

        # The rollback.
        first.wait_for_line("ready to take over", START_S)
        assert second.terminate(120) == 0
        leads(first)
        copies(first)

        # The way out: only twinlog's own topics are deleted, and positions stay.
        assert first.terminate(120) == 0
        own = "mm2-twinlog-.*"
        run_tool(TOPICS, ["--bootstrap-server", right.bootstrap, "--delete", "--topic", own], deadline_s=240)
        wait_for(lambda: not [name for name in topics(right) if name.startswith(own[:-2])], 60, "the topics are gone")
        first.restart()
        leads(first)
        copies(first)
    total = load.total
    wait_for(lambda: arrived() >= total, START_S, "everything is copied")
    assert first.terminate(120) == 0
    assert require_clean(left, topic, right, remote) == total
    assert "Traceback" not in first.log + second.log
    assert "protocol version" not in first.log + second.log


def stored(cluster: KafkaCluster) -> bytes:
    """All headers of stored positions."""
    records = consume(cluster, "mm2-offsets.rolled.internal")
    return b"".join(value or b"" for record in records for _, value in record.headers)
