"""Writes deploy/kubernetes/twinlog.yaml: what the Helm chart renders without any values of one's own."""

from __future__ import annotations

from pathlib import Path

from harness.containers.chart import text_of

TARGET = Path(__file__).parents[1] / "deploy/kubernetes/twinlog.yaml"
HEAD = """\
# All objects of deploy/helm/twinlog with its default values; `python -m scripts.manifests` writes this file.
# Change the ConfigMap `mirror-mirror` and, where your resource names other secrets, the volumes of the Deployment.
---
"""


def main() -> None:
    """Render and write."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(HEAD + text_of(), encoding="utf-8")


if __name__ == "__main__":
    main()
