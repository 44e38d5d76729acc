"""The pages: both forms of text as other programs read them, and the names of beans."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from tests.unit.worker.metrics.measured import JVM, NAME, ORDERS, REMOTE, Scene, report
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.metrics.exposition import BeanTable, Measurements, Pages, bean, bean_text, quoted
from twinlog.worker.metrics.process import jvm_families

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.1"
MIRROR = "kafka.connect.mirror:type=MirrorSourceConnector"


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.take(report(records=30, lag=5))
    found.checkpoint()
    return found


def test_both_forms_hold_the_same_samples(scene: Scene) -> None:
    kind, page = scene.pages.text(OPENMETRICS)
    assert kind.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")
    assert scene.pages.text("")[0].startswith("text/plain")
    found = {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in openmetrics(page.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    plain = {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in prometheus(scene.text())
        for sample in family.samples
    }
    assert found == plain
    assert len(found) > 100


def test_no_family_stands_twice(scene: Scene) -> None:
    names = [line.split()[2] for line in scene.text().splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("east", "east"),
        ("a-b_c.d%20 x", "a-b_c.d%20 x"),
        ("east->west", '"east->west"'),
        ("a|b", '"a|b"'),
        ('say "x"', '"say \\"x\\""'),
        ("a*b?c\\", '"a\\*b\\?c\\\\"'),
        ("é", '"é"'),
        ("", ""),
    ],
)
def test_a_tag_is_quoted_as_java_does(value: str, name: str) -> None:
    assert quoted(value) == name


def test_labels_keep_the_quotes_of_jmx(scene: Scene) -> None:
    quotes = '{connector="\\"east->west.MirrorSourceConnector\\"",task="0"}'
    assert f"kafka_connect_source_task_source_record_write_total{quotes} 30\n" in scene.text()
    labels = f'{{connector="\\"{NAME}\\"",task="0",status="running"}}'
    assert f"kafka_connect_connector_status{labels} 1\n" in scene.text()


def test_beans_have_their_names_and_attributes_in_json(scene: Scene) -> None:
    found = json.loads(scene.pages.json())["value"]
    mirror = found[f"{MIRROR},source=east,target=west,topic=east.orders,partition=0"]
    assert mirror["record-count"] == 30
    assert mirror["replication-latency-ms-max"] == 20
    assert mirror["record-age-ms-avg"] == 15
    checkpoint = "kafka.connect.mirror:type=MirrorCheckpointConnector,source=east,target=west,group=app,"
    assert found[f"{checkpoint}topic=east.orders,partition=0"]["checkpoint-latency-ms"] == 12.5
    task = found[f'kafka.connect:type=connector-task-metrics,connector="{NAME}",task=0']
    assert task["connector-class"] == "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    assert found["kafka.connect:type=app-info,client-id=twinlog"]["start-time-ms"] == 1_000_000


def test_what_was_not_measured_is_null_and_nan() -> None:
    scene = Scene()
    bare = json.loads(scene.pages.json())["value"][f"{MIRROR},source=east,target=west,topic=east.orders,partition=0"]
    assert bare["replication-latency-ms-avg"] is None
    assert bare["record-count"] == 0
    assert (
        'replication_latency_ms_avg{source="east",target="west",topic="east.orders",partition="0"} NaN' in scene.text()
    )


def test_the_new_form_of_names_stands_beside_the_old_one_or_alone(scene: Scene) -> None:
    plugin = (
        f'kafka.connect:type=plugins,connector="{NAME}",task=0,source=east,target=west,topic=east.orders,partition=0'
    )
    scene.formats = ("legacy", "new")
    both = json.loads(scene.pages.json())["value"]
    assert both[plugin] == both[f"{MIRROR},source=east,target=west,topic=east.orders,partition=0"]
    scene.formats = ("new",)
    alone = json.loads(scene.pages.json())["value"]
    assert plugin in alone
    assert not any(name.startswith("kafka.connect.mirror:") for name in alone)
    groups = [name for name in alone if ",group=app," in name]
    checkpoint = NAME.replace("Source", "Checkpoint")
    assert groups == [
        (
            f'kafka.connect:type=plugins,connector="{checkpoint}",task=0,source=east,target=west,group=app,'
            "topic=east.orders,partition=0"
        )
    ]


def test_the_alias_of_the_source_can_be_left_out(scene: Scene) -> None:
    scene.has_source = False
    assert f"{MIRROR},target=west,topic=east.orders,partition=0" in json.loads(scene.pages.json())["value"]


def test_windows_forget_what_is_older_than_a_minute(scene: Scene) -> None:
    name = f"{MIRROR},source=east,target=west,topic=east.orders,partition=0"
    scene.take(report(records=10, latency_ms=100), after_s=40.0)
    found = json.loads(scene.pages.json())["value"][name]
    assert (found["replication-latency-ms-min"], found["replication-latency-ms-max"]) == (20, 100)
    assert found["replication-latency-ms-avg"] == (30 * 20 + 10 * 100) / 40
    assert found["record-rate"] == pytest.approx(40 / 40)
    scene.now += 50
    found = json.loads(scene.pages.json())["value"][name]
    assert (found["replication-latency-ms-min"], found["replication-latency-ms"]) == (100, 100)
    scene.now += 20
    found = json.loads(scene.pages.json())["value"][name]
    assert found["replication-latency-ms-max"] is None
    assert found["replication-latency-ms"] == 100
    assert (found["record-count"], found["record-rate"]) == (40, 0)


def test_a_copier_that_ends_leaves_its_counts_and_its_place() -> None:
    scene = Scene()
    scene.take(report(records=30))
    scene.meters.remove_copier("copier-1")
    assert scene.meters.present == set()
    assert scene.meters.task_of("copier-2") == 0
    scene.take(report(records=10))
    assert scene.meters.task_of("copier-1") == 1
    assert {task: totals.written_records for task, totals in scene.meters.tasks.items()} == {0: 30, 1: 10}
    assert scene.meters.tasks[0].counters.waiting_records == 0


def test_values_are_written_as_prometheus_reads_them() -> None:
    table = bean("d", "t", [("a", 1), ("b", 1.5), ("c", math.inf), ("d", -math.inf), ("e", math.nan)], tag='x"\n')
    text = bean_text([table], openmetrics=False).decode()
    values = [sample.value for family in prometheus(text) for sample in family.samples]
    assert values[:4] == [1.0, 1.5, math.inf, -math.inf]
    assert math.isnan(values[4])


def test_names_of_strimzis_reporter() -> None:
    """Names in the dashboards that Strimzi has for its Metrics Reporter, and the labels of its classes."""
    worker = bean(
        "kafka.connect", "connect-worker-metrics", [("connector-count", 2), ("task-startup-success-total", 3)]
    )
    task = bean("kafka.connect", "connector-task-metrics", [("status", "running")], connector="e->w.Mirror", task="0")
    client = bean("kafka.consumer", "consumer-metrics", [("incoming-byte-total", 7)], client_id='"a"')
    text = bean_text([worker, task, client], openmetrics=False, names="reporter").decode()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in prometheus(text)
        for sample in family.samples
    }
    assert samples == {
        ("kafka_connect_connect_worker_metrics_connector_count",): 2,
        ("kafka_connect_connect_worker_metrics_task_startup_success",): 3,
        (
            "kafka_connect_connector_task_metrics_status_info",
            ("connector", "e->w.Mirror"),
            ("status", "running"),
            ("task", "0"),
        ): 1,
        ("kafka_consumer_consumer_metrics_incoming_byte", ("client_id", '"a"')): 7,
    }
    assert {family.type for family in prometheus(text)} == {"gauge"}


def test_mirrors_have_the_same_names_by_both() -> None:
    scene = Scene()
    scene.take(report(records=3))
    pages = Pages(scene.measure, "reporter")
    names = {family.name for family in prometheus(pages.text("")[1].decode())}
    assert "kafka_connect_mirror_mirrorsourceconnector_record_count" in names
    assert "kafka_connect_mirror_mirrorsourceconnector_record_age_ms_avg" in names


def test_without_a_jvm_only_its_restarts_are_shown() -> None:
    names = {family.name for family in jvm_families(None, 2)}
    assert names == {"twinlog_spark_restarts"}
    assert {family.name for family in jvm_families(JVM, 2)} > names


def test_ten_thousand_partitions_are_one_page() -> None:
    scene = Scene()
    one = report(records=1)
    for number in range(10_000):
        key = TopicPartition(TopicName("orders"), number)
        scene.meters.add_counters(key, one.partitions[0].counters, scene.now)
        scene.remote[key] = TopicPartition(REMOTE.topic, number)
    assert ORDERS in scene.remote
    lines = scene.text().splitlines()
    assert sum(line.startswith("kafka_connect_mirror_mirrorsourceconnector_record_count{") for line in lines) == 10_000


def test_nothing_measured_is_an_empty_page() -> None:
    assert Pages(Measurements).text("")[1] == b""
    assert json.loads(Pages(Measurements).json())["value"] == {}


MONITORING = Path(__file__).parents[4] / "deploy" / "monitoring"


def promtool(*arguments: str, page: str = "") -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; the parser of its grammar has judged the same files")
    found = subprocess.run([program, *arguments], input=page, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode in (0, 3), found.stdout + found.stderr
    return found.stderr


def test_promtool_takes_rules_and_configuration() -> None:
    promtool("check", "config", str(MONITORING / "prometheus.yaml"))


def test_promtool_takes_the_page(scene: Scene) -> None:
    # Its remarks on names are on those that Kafka and Strimzi chose.
    remarks = promtool("check", "metrics", page=scene.text())
    assert not [line for line in remarks.splitlines() if line.startswith("twinlog_")]


def test_a_tag_without_a_value_is_left_out_of_a_beans_name() -> None:
    """As JmxReporter does with that of a cluster whose alias is empty."""
    ((name, _),) = BeanTable("d", "t", ("source", "topic"), ("a",), [(("", "orders"), (1.0,))]).named()
    assert name == "d:type=t,topic=orders"
