"""Where a driver waits for its copiers, out of each kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import worker_files
from tests.unit.config.said import said
from twinlog.config import load
from twinlog.config.properties import parse_properties
from twinlog.config.strimzi.load import load_resource
from twinlog.config.worker import worker_of
from twinlog.errors import ConfigError
from twinlog.settings.worker import DriverListener

FLOW = "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\na->b.enabled = true\n"
WORKER = worker_files.distributed()
KEYS = "twinlog.driver.host = gate.example\ntwinlog.driver.bind.address = 0.0.0.0\ntwinlog.driver.port = 7079\n"
RESOURCE = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  replicas: 1
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: g
    configStorageTopic: c
    statusStorageTopic: s
    offsetStorageTopic: o
    config: {twinlog.driver.port: 7079}
  mirrors:
    - source: {alias: east, bootstrapServers: "east:9092"}
      sourceConnector: {}
"""
SET = DriverListener("gate.example", "0.0.0.0", 7079)


def of_flows(folder: Path, text: str) -> DriverListener:
    file = folder / "mm2.properties"
    file.write_text(FLOW + text, "utf-8")
    return load(file).driver


def test_spark_decides_unless_the_file_does(tmp_path: Path) -> None:
    worker = worker_of(parse_properties(WORKER, "w.properties"), "w.properties")
    assert of_flows(tmp_path, "") == worker.settings.driver == DriverListener("", "", 0)


def test_each_kind_of_file_may_say_it(tmp_path: Path) -> None:
    worker = worker_of(parse_properties(WORKER + KEYS, "w.properties"), "w.properties")
    assert of_flows(tmp_path, KEYS) == worker.settings.driver == SET
    resource = tmp_path / "mirror.yaml"
    resource.write_text(RESOURCE, "utf-8")
    found = load_resource(resource)
    assert found.worker.settings.driver.port == 7079
    assert [line for line in said(found.warnings) if "twinlog.driver" in line] == []


def test_a_port_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"twinlog\.driver\.port"):
        of_flows(tmp_path, "twinlog.driver.port = 70000\n")
