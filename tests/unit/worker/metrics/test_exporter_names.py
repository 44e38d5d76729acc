"""The names of the example for Kafka's JMX exporter, which many dashboards ask for, from recording rules."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.promql import Scrapes
from tests.unit.worker.metrics.measured import Scene, report
from tests.unit.worker.metrics.test_exposition import MONITORING

FILE = MONITORING / "exporter-names.yaml"
RULES: dict[str, str] = {
    rule["record"]: rule["expr"]
    for rule in YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))["groups"][0]["rules"]
}


@pytest.fixture(scope="module")
def recorded() -> Scrapes:
    """What Prometheus has after it has recorded by the rules."""
    scene, found = Scene(), Scrapes()
    for at in (1000.0, 1015.0):
        scene.take(report(records=30, lag=5), after_s=15.0)
        scene.checkpoint()
        found.add(at, scene.text())
    for name, expression in RULES.items():
        series = found.query(expression)
        assert series, name
        for labels, value in series.items():
            found.put(1015.0, name, value, **dict(labels))
    return found


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ('kafka_connect_mirror_source_connector_replication_latency_ms_avg{topic="east.orders",partition="0"}', 20.0),
        ('kafka_connect_mirror_source_connector_record_age_ms_avg{destination="west"}', 15.0),
        ('kafka_connect_mirror_source_connector_record_count{destination="west",topic=~"east.*"}', 60.0),
        # These names are the same.
        ('kafka_consumer_fetch_manager_records_lag{topic!="connect-offsets"}', 5.0),
        ('kafka_connect_source_task_source_record_active_count{connector!="mm2-hbc"}', 7.0),
    ],
)
def test_a_panel_of_such_a_dashboard_finds_its_figure(recorded: Scrapes, query: str, value: float) -> None:
    found: Any = recorded.query(query)
    assert value in found.values(), found


def test_checkpoints_are_there_too(recorded: Scrapes) -> None:
    assert recorded.query(
        'kafka_connect_mirror_checkpoint_connector_checkpoint_latency_ms_max{source="east",target="west"}'
    )


def test_every_figure_of_a_mirror_has_a_rule() -> None:
    scene = Scene()
    scene.take(report(records=30, lag=5), after_s=15.0)
    scene.checkpoint()
    ours = {
        line.split("{")[0].split(" ")[0]
        for line in scene.text().splitlines()
        if line.startswith("kafka_connect_mirror_mirror")
    }
    # MirrorMaker 2 has no such figure.
    ours.discard("kafka_connect_mirror_mirrorsourceconnector_replication_record_lag")
    assert {name for name in ours if not any(name in text for text in RULES.values())} == set()
