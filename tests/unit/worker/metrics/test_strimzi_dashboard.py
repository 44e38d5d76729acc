"""Strimzi's Grafana dashboard for MirrorMaker 2 works unchanged: each of its queries finds something on our page."""

from __future__ import annotations

import pytest

from tests.dashboards import LABELS, strimzi_queries, with_kubelet
from tests.promql import Scrapes
from tests.unit.worker.metrics.measured import Scene, report


@pytest.fixture(scope="module")
def scrapes() -> Scrapes:
    scene, found = Scene(), Scrapes(**LABELS)
    for at in (1000.0, 1015.0):
        scene.take(report(records=30, lag=5), after_s=15.0)
        scene.checkpoint()
        found.add(at, scene.text())
    return with_kubelet(found)


@pytest.mark.parametrize(("title", "query"), list(strimzi_queries()))
def test_each_query_finds_a_series(scrapes: Scrapes, title: str, query: str) -> None:
    assert scrapes.query(query), f"{title}: {query}"


def test_the_figures_are_those_that_were_measured(scrapes: Scrapes) -> None:
    found = {title: scrapes.query(query) for title, query in strimzi_queries()}
    here = (("partition", "0"), ("topic", "east.orders"))
    assert found["Total Number of Running Connectors"] == {(): 2.0}
    assert found["Total Number of Running Tasks"] == {(): 2.0}
    assert found["Total record rate"] == {(): 60 / 45}
    assert found["Total byte rate"] == {(): 6000 / 45}
    assert found["Replication Latency"] == {here: 20.0}
    assert found["Record Age"] == {here: 15.0}
    assert found["Consumer Lag"] == {(("partition", "0"), ("topic", "orders")): 5.0}
    assert found["Source Connector - Producer Available Buffer"] == {(): float(1 << 20)}
    assert found["Source Connector - Average Offset Commit Time"] == {(): 4.0}
    assert found["Source Connector - Connect Outstanding Messages Queue"] == {(): 7.0}
    assert found["Rebalancing"] == {(): 0.0}


def test_a_query_of_something_else_finds_nothing(scrapes: Scrapes) -> None:
    assert not scrapes.query('kafka_connect_worker_connector_count{strimzi_io_cluster="another"}')
    assert not scrapes.query("kafka_connect_mirror_mirrorsourceconnector_record_rates")
