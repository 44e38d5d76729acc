"""The Helm chart: what it renders is what Kubernetes takes, with the rights and limits that it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from harness.containers.chart import CHART, Manifest, one, render, text_of

PLAIN = Path(__file__).parents[3] / "deploy/kubernetes/twinlog.yaml"
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
    {
        "restUsersSecret": "users",
        "networkPolicy": {"restFrom": [{"podSelector": {"matchLabels": {"app": "kafka-ui"}}}]},
        "metrics": {"podMonitorLabels": {"release": "prometheus"}},
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
    """Fix them by `python -m scripts.manifests`."""
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


def test_a_driver_may_touch_pods_and_nothing_else_in_its_namespace() -> None:
    """Claims and services of brokers are in the same namespace, and nobody can limit a right by a label."""
    manifests = render()
    assert [rule["resources"] for rule in one(manifests, "Role")["rules"]] == [["pods"]]
    args = container(manifests)["args"]
    for setting in ("service.deleteOnTermination", "ownPersistentVolumeClaim", "reusePersistentVolumeClaim"):
        assert f"spark.kubernetes.driver.{setting}=false" in args


def test_the_rest_api_asks_for_a_login_where_others_may_reach_it() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "kafka-ui"}}}
    manifests = render({"restUsersSecret": "users", "networkPolicy": {"restFrom": [peer]}})
    driver = container(manifests)
    args = driver["args"]
    assert args[args.index("--users") + 1] == "/etc/twinlog/users/users"
    assert "/etc/twinlog/users" in [mount["mountPath"] for mount in driver["volumeMounts"]]
    *_, rest = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert rest == {"ports": [{"protocol": "TCP", "port": 8083}], "from": [peer]}
    # A kubelet cannot log in.
    assert {driver[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"tcp-prometheus"}


def test_no_cluster_that_is_away_has_drivers_killed() -> None:
    driver = container(render())
    assert driver["livenessProbe"]["httpGet"]["path"] == "/live"
    assert driver["readinessProbe"]["httpGet"]["path"] == "/health"


RESOURCE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  replicas: 1
  livenessProbe: {initialDelaySeconds: 7}
  logging: {type: external, valueFrom: {configMapKeyRef: {name: levels, key: log4j2.properties}}}
  target: {alias: west, authentication: {type: plain, passwordSecret: {secretName: west, password: p}}}
  mirrors:
    - sourceConnector: {alterOffsets: {fromConfigMap: {name: wanted}}}
      checkpointConnector: {}
"""


def test_what_a_resource_asks_of_its_pods_is_done() -> None:
    manifests = render({"mirrorText": RESOURCE})
    driver = container(manifests)
    assert (driver["livenessProbe"]["initialDelaySeconds"], driver["livenessProbe"]["periodSeconds"]) == (7, 10)
    paths = [mount["mountPath"] for mount in driver["volumeMounts"]]
    below = "/etc/twinlog/secrets/"
    assert [path.removeprefix(below) for path in paths if path.startswith(below)] == ["west", "levels", "wanted"]
    volumes = one(manifests, "Deployment")["spec"]["template"]["spec"]["volumes"]
    optional = [volume["configMap"]["name"] for volume in volumes if volume.get("configMap", {}).get("optional")]
    assert optional == ["levels", "wanted"]


def test_executors_read_tokens_where_drivers_do() -> None:
    manifests = render({"mirrorText": RESOURCE})
    (only,) = executor(manifests)["spec"]["containers"]
    assert "/etc/twinlog/secrets/west" in [mount["mountPath"] for mount in only["volumeMounts"]]


def test_the_image_is_that_of_the_chart() -> None:
    assert container(render())["image"].rpartition(":")[2] != "latest"


def test_own_settings_win() -> None:
    args = container(render({"spark": {"conf": {"spark.executor.cores": "3"}}}))["args"]
    assert [word for word in args if word.startswith("spark.executor.cores")] == ["spark.executor.cores=3"]
