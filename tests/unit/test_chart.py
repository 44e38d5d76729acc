"""The Helm chart: what it renders is what Kubernetes takes, with the rights and limits that it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from harness.chart import CHART, Manifest, one, render, text_of

PLAIN = Path(__file__).parents[2] / "deploy/kubernetes/twinlog.yaml"
NEWEST = kubernetes_validate.latest_version().rpartition(".")[0]
VALUES: list[dict[str, Any]] = [
    {},
    {"spark": {"master": "local[2]"}},
    {"existingConfigMap": "mine", "extraSecrets": ["one", "two"], "extraConfigMaps": ["three"]},
    {
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
    },
    {
        "image": {"pullSecrets": [{"name": "registry"}]},
        "nodeSelector": {"pool": "kafka"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "data"},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]},
        "env": [{"name": "A", "value": "b"}],
    },
]


def container(manifests: list[Manifest]) -> Manifest:
    (only,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(only)


def executor(manifests: list[Manifest]) -> Manifest:
    text = one(manifests, "ConfigMap", "mirror-executor")["data"]["pod.yaml"]
    return dict(YAML(typ="safe").load(text))


@pytest.mark.parametrize("version", ["1.25", NEWEST])
@pytest.mark.parametrize("values", VALUES)
def test_kubernetes_takes_every_object(values: dict[str, Any], version: str) -> None:
    manifests = render(values)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)
    if any(manifest["metadata"]["name"] == "mirror-executor" for manifest in manifests):
        kubernetes_validate.validate(executor(manifests) | {"kind": "Pod"}, version, strict=True)


def test_a_wrong_object_is_seen() -> None:
    deployment = one(render(), "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, NEWEST, strict=True)


def test_helm_finds_nothing_to_mend() -> None:
    assert helm_python.lint(str(CHART))["errors"] == []


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"spark": {"master": "yarn"}},
        {"mirror": {"kind": "KafkaConnect"}},
        {"spark": {"conf": {"spark.x": 1}}},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(helm_python.HelmError):
        render(values)


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    """Mend them by `python -m scripts.manifests`."""
    assert PLAIN.read_text(encoding="utf-8").partition("\n---\n")[2] == text_of()


@pytest.mark.parametrize("pod", ["driver", "executor"])
def test_pods_run_without_root_on_a_disk_that_they_cannot_write(pod: str) -> None:
    manifests = render()
    spec = one(manifests, "Deployment")["spec"]["template"]["spec"] if pod == "driver" else executor(manifests)["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    (only,) = spec["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
    assert {mount["mountPath"] for mount in only["volumeMounts"] if mount["name"] in written} == {"/tmp"}


def test_executors_have_no_right_at_the_api_server() -> None:
    assert executor(render())["spec"]["automountServiceAccountToken"] is False


def test_the_secrets_that_a_resource_names_are_mounted_by_their_names() -> None:
    resource = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
spec:
  replicas: 5
  connectCluster: west
  clusters:
    - alias: east
      tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
      authentication: {type: tls, certificateAndKey: {secretName: user, certificate: a, key: b}}
    - alias: west
      tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
      authentication: {type: oauth, clientSecret: {secretName: client, key: secret}}
"""
    manifests = render({"mirrorText": resource, "extraSecrets": ["more"]})
    mounts = [mount["mountPath"] for mount in container(manifests)["volumeMounts"]]
    assert [mount for mount in mounts if "secrets/" in mount] == [
        f"/etc/twinlog/secrets/{name}" for name in ("ca", "client", "more", "user")
    ]
    assert one(manifests, "ConfigMap", "mirror-mirror")["data"]["mirror.yaml"].strip() == resource.strip()
    assert "spark.executor.instances=5" in container(manifests)["args"]


def test_the_resource_is_mounted_so_that_its_changes_arrive() -> None:
    mounts = container(render())["volumeMounts"]
    assert [mount for mount in mounts if "subPath" in mount] == []


def test_tasks_in_the_drivers_want_no_rights() -> None:
    manifests = render({"spark": {"master": "local[4]"}})
    assert not {"Role", "RoleBinding"} & {manifest["kind"] for manifest in manifests}
    assert one(manifests, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert "--conf" not in container(manifests)["args"]


def test_the_rest_api_is_at_an_address_that_other_pods_reach_and_nobody_else() -> None:
    manifests = render()
    assert "http://$(POD_IP):8083" in container(manifests)["args"]
    inside, metrics = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert "ports" not in inside
    assert [port["port"] for port in metrics["ports"]] == [9404]


def test_own_settings_win() -> None:
    args = container(render({"spark": {"conf": {"spark.executor.cores": "3"}}}))["args"]
    assert [word for word in args if word.startswith("spark.executor.cores")] == ["spark.executor.cores=3"]
