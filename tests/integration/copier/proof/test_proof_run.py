"""`twinlog run` with a proof: its state is in `twinlog status`, and a foreign record holds a partition by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.mirror_process import MirrorProcess, flow_properties
from twinlog.cli.main import app

DEADLINE_S = 120.0


def test_status_tells_the_proof_and_its_difference(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, other = (
        create_topic(source_cluster, new_name("proven"), 2),
        create_topic(source_cluster, new_name("differs")),
    )
    # No lease ends meanwhile: the next copier looks for its last records, and would find the foreign record first.
    settings = {"topics": f"{topic}|{other}", "twinlog.lease.seconds": "3600"}
    properties = flow_properties("a->b", source_cluster, target_cluster, settings)
    twinlog = MirrorProcess(tmp_path, "a, b", properties, "--prove")
    twinlog.start()

    def seen() -> dict[str, Any]:
        found = CliRunner().invoke(app, ["status", str(twinlog.file), "-o", "json"])
        flows: Any = json.loads(found.stdout)
        flow: dict[str, Any] = (flows["flows"] if isinstance(flows, dict) else flows)[0]
        return flow

    try:
        twinlog.wait_for_tasks("a->b")
        for number in range(2):
            produce(source_cluster, topic, numbered(300), partition=number, codec="lz4", per_batch=17)
        produce(source_cluster, other, numbered(20))
        wait_for(lambda: (seen()["proof"] or {}).get("records") == 620, DEADLINE_S, "all is proven")
        assert seen()["proof"]["differences"] == 0
        produce(target_cluster, f"a.{other}", numbered(1))
        twinlog.wait_for_line(rf"TW-PROOF-01: a->b: {other}-0 is held at source offset 20: .* differs: at offset 20")
        wait_for(lambda: seen()["proof"]["differences"] == 1, DEADLINE_S, "the difference is counted")
        assert seen()["held"]["by_reason"] == {"difference": 1}
    finally:
        twinlog.kill()
