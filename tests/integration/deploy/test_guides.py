"""The guides of the documentation, followed line by line on clusters of one broker each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from harness.containers.guide import GuideShell, read_guide
from harness.ports import claim_port, release_port
from harness.topics import delete_topics_of_users

DOCS = Path(__file__).parents[3] / "docs"
GUIDES = {path.stem: path for path in (DOCS / "canary.md", *sorted((DOCS / "guides").glob("*.md")))}
ALIASES = ("oslo", "bergen", "all")


@pytest.fixture(scope="module")
def sites() -> Iterator[dict[str, KafkaCluster]]:
    """A cluster for each alias of the guides."""
    clusters = {alias: KafkaCluster(alias, heap="384m") for alias in ALIASES}
    try:
        for cluster in clusters.values():
            cluster.start_async()
        for cluster in clusters.values():
            cluster.wait_ready()
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.close()


@pytest.mark.scenario
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_does_what_it_says(guide: str, sites: dict[str, KafkaCluster], tmp_path: Path) -> None:
    port = claim_port()
    names = {f"{alias}:9092": cluster.bootstrap for alias, cluster in sites.items()}
    names["localhost:8083"] = f"localhost:{port}"
    try:
        with GuideShell(tmp_path, names) as shell:
            shell.follow(read_guide(GUIDES[guide].read_text(encoding="utf-8")))
    finally:
        release_port(port)
        for cluster in sites.values():
            delete_topics_of_users(cluster)
