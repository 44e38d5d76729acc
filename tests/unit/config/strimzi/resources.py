"""Strimzi's resources in files of a test, and what is read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.strimzi.load import ResourceConfig, load_resource
from twinlog.errors import ConfigError

HERE = Path(__file__).parent

V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata:
  name: mirror
spec:
  replicas: 1
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: mirrors
    configStorageTopic: mirrors-configs
    statusStorageTopic: mirrors-states
    offsetStorageTopic: mirrors-positions
  mirrors:
    - source:
        alias: east
        bootstrapServers: east:9092
      sourceConnector:
        tasksMax: 2
        config:
          replication.factor: 1
      checkpointConnector:
        config:
          sync.group.offsets.enabled: true
      topicsPattern: "orders.*, clicks"
      groupsExcludePattern: "test-.*"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mirror.yaml"
    path.write_text(text, "utf-8")
    return path


def read(folder: Path, text: str, secrets: Path | None = None) -> ResourceConfig:
    return load_resource(written(folder, text), secrets)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [str(problem).removeprefix(str(folder / "mirror.yaml")) for problem in caught.value.problems]


def secret_files(folder: Path, **values: str) -> Path:
    """Files as Kubernetes mounts them: `a__b` is the key b of the Secret a."""
    for name, value in values.items():
        secret, key = name.replace("_DOT_", ".").split("__")
        path = folder / secret.replace("_", "-") / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value, "utf-8")
    return folder


OLD = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mirror
spec:
  connectCluster: west
  clusters:
    - alias: east
      bootstrapServers: east:9092
    - alias: west
      bootstrapServers: west:9092
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector: {}
      heartbeatConnector: {pause: true}
      topicsBlacklistPattern: "x.*"
"""
