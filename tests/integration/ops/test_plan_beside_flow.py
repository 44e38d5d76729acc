"""A plan of a flow that runs meanwhile: what moves while it is read is no trouble."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.flows.arriving import end_of
from tests.integration.mirror_process import flow_properties
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

COPY_S = 60.0


def test_records_that_are_copied_between_two_of_its_looks_are_no_gap(
    clusters: tuple[KafkaCluster, KafkaCluster],
    new_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = clusters
    here, there, topic = new_name("here"), new_name("there"), create_topic(source, new_name("t"))
    produce(source, topic, numbered(10))
    own = {"topics": topic, "heartbeats.replication.enabled": "false", "offset-syncs.topic.replication.factor": "1"}
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = {here}, {there}\n{flow_properties(f'{here}->{there}', source, target, own)}")
    (flow,) = (one for one in load(file).flows if one.enabled)
    part = TopicPartition(TopicName(topic), 0)
    read_all = PositionStore.read_all

    def read_later(store: PositionStore) -> dict[TopicPartition, Position]:
        """The logs were read before; now five more records are copied, and their position is stored."""
        produce(source, topic, numbered(5, start=10))
        wait_for(lambda: read_all(store)[part].next_source == 15, COPY_S, "a later position is stored")
        return read_all(store)

    with FlowWithoutSpark(flow):
        wait_for(lambda: end_of(target, f"{here}.{topic}", 0) == 10, COPY_S, "it is copied")
        monkeypatch.setattr(PositionStore, "read_all", read_later)
        result = CliRunner().invoke(app, ["plan", str(file), "--flow", flow.name, "--json"])
    (plan,) = json.loads(result.stdout)["flows"]
    assert [problem for problem in plan["problems"] if problem["kind"] == "gap"] == []
    assert result.exit_code == 0, result.output
