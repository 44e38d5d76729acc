"""The manifests for Spark's cluster mode on Kubernetes: Kubernetes takes them, and they have what twinlog asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from twinlog.config import load
from twinlog.spark.settings import CLUSTER_SETTINGS, TaskResources, contradictions, derived

HERE = Path(__file__).parents[3] / "deploy/kubernetes/cluster-mode"
NEWEST = kubernetes_validate.latest_version().rpartition(".")[0]
MASTER = "k8s://https://kubernetes:6443"


def objects(file: str) -> list[dict[str, Any]]:
    return [dict(one) for one in YAML(typ="safe").load_all((HERE / file).read_text("utf-8"))]


def settings() -> dict[str, str]:
    lines = (HERE / "spark.conf").read_text("utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("version", ["1.25", NEWEST])
@pytest.mark.parametrize("file", ["objects.yaml", "driver.yaml", "executor.yaml"])
def test_kubernetes_takes_every_object(file: str, version: str) -> None:
    for one in objects(file):
        kubernetes_validate.validate(one, version, strict=True)


def test_the_settings_are_those_that_the_tasks_of_the_flows_need(tmp_path: Path) -> None:
    (config_map,) = (one for one in objects("objects.yaml") if one["kind"] == "ConfigMap")
    file = tmp_path / "mm2.properties"
    file.write_text(config_map["data"]["mm2.properties"], "utf-8")
    config = load(file)
    need = TaskResources(sum(flow.tasks_max for flow in config.flows if flow.enabled))
    ours = settings()
    assert contradictions(MASTER, need, ours) == []
    for key, value in derived(MASTER, need, {}).items():
        assert ours[key] == value, key
    assert {key: ours.get(key, value) for key, value in CLUSTER_SETTINGS.items()} == CLUSTER_SETTINGS
    # A policy lets these ports pass, and no other.
    (policy,) = (one for one in objects("objects.yaml") if one["kind"] == "NetworkPolicy")
    ports = [port["port"] for port in policy["spec"]["ingress"][0]["ports"]]
    assert ports == [int(ours["spark.driver.port"]), config.driver.port, int(ours["spark.driver.blockManager.port"])]


def test_names_fit_one_another() -> None:
    ours = settings()
    (account,) = (one for one in objects("objects.yaml") if one["kind"] == "ServiceAccount")
    assert ours["spark.kubernetes.authenticate.driver.serviceAccountName"] == account["metadata"]["name"]
    for role in ("driver", "executor"):
        (pod,) = objects(ours[f"spark.kubernetes.{role}.podTemplateFile"])
        (container,) = pod["spec"]["containers"]
        assert container["name"] == ours[f"spark.kubernetes.{role}.podTemplateContainerName"]
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == role
    image = (HERE.parents[2] / "Containerfile").read_text("utf-8")
    script = ours["spark.kubernetes.decommission.script"]
    assert re.search(rf"^COPY scripts/\w+\.py {re.escape(script)}$", image, re.MULTILINE)
