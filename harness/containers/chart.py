"""The Helm chart, rendered by Helm's own library, as a list of objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python
from ruamel.yaml import YAML

CHART = Path(__file__).parents[2] / "deploy/helm/twinlog"
Manifest = dict[str, Any]


def render(
    values: Mapping[str, Any] | None = None, *, name: str = "mirror", namespace: str = "kafka"
) -> list[Manifest]:
    """The objects of the chart with `values` over its own. Raises helm_python.HelmError."""
    with helm_python.Chart.load(str(CHART)) as chart:
        given = dict(values or {})
        chart.validate_schema(given)
        files = chart.render(given, name=name, namespace=namespace)
    yaml = YAML(typ="safe")
    texts = [text for file, text in files.items() if file.endswith(".yaml")]
    return [found for text in texts for found in yaml.load_all(text) if found]


def text_of(values: Mapping[str, Any] | None = None, *, name: str = "mirror", namespace: str = "kafka") -> str:
    """All objects as the one file that `kubectl apply --filename` takes."""
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(dict(values or {}), name=name, namespace=namespace)
    return "---\n".join(text.strip() + "\n" for file, text in sorted(files.items()) if file.endswith(".yaml") and text)


def one(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    """The only object of a kind, or that of a name."""
    (found,) = (each for each in manifests if each["kind"] == kind and name in (None, each["metadata"]["name"]))
    return found
