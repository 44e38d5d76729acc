"""Dashboards that are tested, and what Prometheus and Kubernetes add to a scrape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.promql import Scrapes

STRIMZI = Path(__file__).parent / "recorded" / "strimzi-mirror-maker-2-dashboard.json"
NAMESPACE, CLUSTER = "kafka", "my-mirror"
LABELS = {
    "namespace": NAMESPACE,
    "strimzi_io_kind": "KafkaMirrorMaker2",
    "strimzi_io_cluster": CLUSTER,
    "kubernetes_pod_name": f"{CLUSTER}-mirrormaker2-0",
}
"""What Strimzi's PodMonitor adds; see deploy/monitoring/prometheus.yaml for the same without Kubernetes."""


def strimzi_queries() -> Iterator[tuple[str, str]]:
    """Each panel's title with an expression of it, its variables filled in."""
    found: dict[str, Any] = json.loads(STRIMZI.read_text(encoding="utf-8"))
    for variable in found["variables"]:
        inner = re.fullmatch(r"query_result\((.*)\)", variable["query"])
        assert inner is not None
        yield f"variable {variable['name']}", filled(inner[1])
    for panel in found["panels"]:
        for expression in panel["expressions"]:
            yield panel["title"], filled(expression)


def filled(expression: str) -> str:
    """A query with the variables of the dashboard replaced."""
    return expression.replace("$kubernetes_namespace", NAMESPACE).replace("$strimzi_mirror_maker_cluster_name", CLUSTER)


def with_kubelet(scrapes: Scrapes) -> Scrapes:
    """The one figure of the dashboard that no process has of itself: Kubernetes measures the CPU of its containers."""
    pod, container = f"{CLUSTER}-mirrormaker2-0", f"{CLUSTER}-mirrormaker2"
    for at, seconds in ((scrapes.now - 15, 10.0), (scrapes.now, 12.0)):
        scrapes.put(at, "container_cpu_usage_seconds_total", seconds, pod=pod, container=container)
    return scrapes
