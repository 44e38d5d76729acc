"""Python processes of Spark that have another wheel than the driver, as where executors were not upgraded."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from twinlog import __version__
from twinlog.lease.messages import VERSION

OLDER = VERSION - 1
TASKS, PLANNER = "pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner"

CUSTOMIZE = """\
import sys

if {module!r} in sys.orig_argv:
    import twinlog
    from twinlog.lease import messages

    twinlog.__version__ = "0.0.1"
    messages.VERSION = {version}

    import twinlog.spark.source
    from twinlog.settings import flow

    # What was pickled with the other wheel cannot be read here.
    del flow.FlowSettings
"""

LAUNCH = """\
#!/bin/sh
PYTHONPATH="{folder}:$PYTHONPATH" exec "{python}" "$@"
"""


def python_with_an_older_wheel(folder: Path, module: str) -> Path:
    """An interpreter that has another version in the processes that run `module`."""
    (folder / "sitecustomize.py").write_text(CUSTOMIZE.format(module=module, version=OLDER))
    launcher = folder / "python"
    launcher.write_text(LAUNCH.format(folder=folder, python=sys.executable))
    launcher.chmod(0o755)
    return launcher


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("module", "caller"),
    [
        (TASKS, r"copier \S+"),
        (PLANNER, "the planner of query left->right"),
    ],
)
def test_the_flow_ends_with_one_line_that_names_both_versions_and_the_way_out(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    caller: str,
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"))
    produce(left, topic, numbered(10))
    monkeypatch.setenv("PYSPARK_PYTHON", str(python_with_an_older_wheel(tmp_path, module)))
    # The bridge would copy until the executors are refused.
    properties = flow_properties("left->right", left, right, {"topics": topic}) + "twinlog.bridge = false\n"
    process = run_twinlog("left, right", properties)

    assert process.wait(300) == 1, process.log
    errors = [line.split(" ERROR ", 1)[1] for line in process.log.splitlines() if " ERROR " in line[:40]]
    logged, failed = errors
    assert re.fullmatch(
        rf"TW-LEASE-05: {caller} has protocol version {OLDER} \(twinlog 0\.0\.1\), its driver protocol version "
        rf"{VERSION} \(twinlog {re.escape(__version__)}\): they cannot work together\. the executors "
        r"\(or Spark's driver\) have the older wheel: install the same one in both places, then start twinlog again",
        logged,
    )
    # Spark tried a task four times, each with a copier of its own.
    assert failed.startswith("TW-LEASE-05: left->right: FAILED: ")
    reason = logged.removeprefix("TW-LEASE-05: ")
    assert re.sub(r"copier \S+", "copier", failed).endswith(re.sub(r"copier \S+", "copier", reason))
    # On a busy machine Spark may have given up a Python before that one could say what version it has.
    again = re.findall(r"the query is started again in \d+ s: (.*)", process.log)
    assert set(again) <= {"Python worker failed to connect back."}
    assert "Traceback" not in process.log
    assert offsets(right, f"left.{topic}")[1] == 0
