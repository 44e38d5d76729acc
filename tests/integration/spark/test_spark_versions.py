"""The other PySpark that the package allows: a Spark of its own, and spark-submit's, with the private names of each.

`make spark-versions` runs more with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark.cluster import CHEAP_JVM
from harness.spark.other_release import other_spark, other_version
from harness.topics import create_topic
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog, wait_until_gone
from twinlog import launcher

COPY_S = 240.0
RECORDS = 100
EVEN = "SELECT * FROM records WHERE CAST(CAST(value AS STRING) AS INT) % 2 = 0"
"""Analysed and evaluated by classes of Spark that are no public interface."""


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python finds it first, in this test's children and in Spark's."""
    place = other_spark()
    assert other_version() != pyspark.__version__
    monkeypatch.setenv("PYTHONPATH", str(place))
    # A Spark of its own forks its Pythons only where nobody names one.
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    # That of spark-submit, which compiles well what runs for a moment.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", CHEAP_JVM)
    return place


@pytest.mark.scenario
@pytest.mark.parametrize("way", ["run", "spark-submit"])
def test_it_copies(
    way: str,
    other: Path,
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    left, right = clusters
    topic = create_topic(left, new_name("t"))
    produce(left, topic, numbered(RECORDS))
    # Spark's own record of which release it is, and of its jars. It is there once Spark has ended.
    events = tmp_path / "events"
    events.mkdir()
    recorded = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}
    record = [f"--conf=spark.eventLog.{key}={value}" for key, value in recorded.items()]
    submitted = {"spark.python.unix.domain.socket.enabled": "true", "spark.pyspark.python": sys.executable}
    settings = ("--master=local[2]", *(f"--conf={key}={value}" for key, value in submitted.items()), *record)
    submit = [str(other / "pyspark" / "bin" / "spark-submit"), *settings, str(launcher.__file__), "run"]
    process = run_twinlog(
        "left, right",
        flow_properties(
            "left->right", left, right, {"topics": topic, **({"transform.sql": EVEN} if way == "run" else {})}
        ),
        *("--until", "caught-up", *(record if way == "run" else ())),
        command=None if way == "run" else submit,
    )
    group = process.pid
    assert process.wait(COPY_S) == 0, process.log
    wait_until_gone(group, 120)
    wanted = range(0, RECORDS, 2 if way == "run" else 1)
    assert [int(record.value or b"") for record in consume(right, f"left.{topic}")] == list(wanted)
    assert "left->right: caught up" in process.log
    (log,) = events.iterdir()
    told = log.read_text()
    assert f'"Spark Version":"{other_version()}"' in told
    assert f'"Spark Home":"{other}' in told or f"{other}/pyspark/jars/" in told
