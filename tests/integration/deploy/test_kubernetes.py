"""The driver's pod as the chart writes it, with executors as pods that Spark asks an API server for.

Pods are processes here, see `harness.containers.kubernetes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.containers.chart import one, render
from harness.containers.kubernetes import Kubernetes
from harness.produce import numbered, produce
from harness.spark.cluster import CHEAP_JVM
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog

DRIVER = "mirror-0"


def driver_options(kubernetes: Kubernetes, home: Path) -> list[str]:
    """Spark's options in the chart's Deployment, with what the kubelet puts in their place."""
    manifests = render({"spark": {"master": f"k8s://{kubernetes.url}", "executors": 1}}, namespace=kubernetes.namespace)
    template = home / "pod.yaml"
    template.write_text(one(manifests, "ConfigMap", "mirror-executor")["data"]["pod.yaml"])
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    args = container["args"]
    places = {"$(POD_NAME)": DRIVER, "$(POD_IP)": "127.0.0.1", "/etc/twinlog/executor/pod.yaml": str(template)}
    found = []
    for option, value in itertools.pairwise(args):
        if option in ("--master", "--conf"):
            for written, real in places.items():
                value = value.replace(written, real)  # noqa: PLW2901
            found += [option, value]
    return found


@pytest.mark.scenario
def test_executors_are_pods_that_are_recreated_and_go_with_their_driver(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    new_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those of the driver and of executors, which on a cluster compile well.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", CHEAP_JVM)
    near, far = clusters
    topic = create_topic(near, new_name("t"))
    remote = f"near.{topic}"
    with Kubernetes("kafka", DRIVER) as kubernetes:
        options = driver_options(kubernetes, tmp_path)
        process = run_twinlog("near, far", flow_properties("near->far", near, far, {"topics": topic}), *options)

        def copied(total: int) -> None:
            produce(near, topic, numbered(100, start=total - 100))

            def there() -> bool:
                return remote in topics(far) and offsets(far, remote)[1] >= total

            try:
                wait_for(there, 240, f"{total} records are copied")
            except TimeoutError as late:
                pods = "\n\n".join(kubernetes.log(name) for name in kubernetes.executors())
                raise AssertionError(f"{late}\n{process.log}\n\n{kubernetes.requests}\n\n{pods}") from late

        copied(100)
        process.wait_for_tasks("near->far")
        (first,) = kubernetes.executors("Running")
        assert kubernetes.pods[first]["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
        kubernetes.running[first].kill()
        wait_for(lambda: kubernetes.executors("Running") not in ([], [first]), 240, "there is another executor")
        copied(200)
        assert process.terminate() == 0
        wait_for(lambda: not kubernetes.executors(), 60, "its pods are gone")
        # The chart gives no right to anything else.
        asked = {request for request in kubernetes.requests if "/namespaces/" in request}
        assert {request for request in asked if "/namespaces/kafka/pods" not in request} == set()
    assert [int(record.value or b"") for record in consume(far, remote)] == list(range(200))
