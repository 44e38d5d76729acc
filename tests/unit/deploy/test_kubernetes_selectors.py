"""Which pods the API server of the tests lists: one that Spark does not find is an executor that it gives up."""

from __future__ import annotations

import pytest

from harness.containers.kubernetes import Kubernetes

LABELS = {"spark-role": "executor", "spark-app-selector": "a-1"}


@pytest.mark.parametrize(
    ("selector", "listed"),
    [
        ("", True),
        ("spark-app-selector=a-1,spark-role=executor", True),
        ("spark-app-selector=a-2,spark-role=executor", False),
        # As Spark asks every 30 seconds.
        ("spark-app-selector=a-1,spark-role=executor,spark-exec-inactive!=true", True),
        ("spark-role!=executor", False),
        ("spark-app-selector == a-1", True),
        ("spark-app-selector in (a-1,a-2), spark-role = executor", True),
        ("spark-app-selector notin (a-1,a-2)", False),
        ("spark-exec-inactive notin (true)", True),
    ],
)
def test_pods_are_listed_by_their_labels(selector: str, listed: bool) -> None:
    kubernetes = Kubernetes("kafka", "driver")
    try:
        kubernetes._keep({"metadata": {"name": "one", "labels": LABELS}, "spec": {}}, "Running")
        names = [pod["metadata"]["name"] for pod in kubernetes.selected(selector)]
        assert ("one" in names) is listed
    finally:
        kubernetes._server.server_close()
        kubernetes._logs.cleanup()


def test_a_selector_that_is_not_known_is_no_empty_list() -> None:
    kubernetes = Kubernetes("kafka", "driver")
    try:
        with pytest.raises(ValueError, match="spark-role"):
            kubernetes.selected("spark-role")
    finally:
        kubernetes._server.server_close()
        kubernetes._logs.cleanup()
