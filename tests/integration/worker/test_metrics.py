"""`/metrics` of a process that copies between real brokers, as Strimzi's dashboard asks for it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.dashboards import LABELS, strimzi_queries, with_kubelet
from tests.integration.mirror_process import MirrorProcess, flow_properties
from tests.promql import Scrapes

COPY_S = 180.0


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_a_run_shows_what_it_copies_and_strimzis_dashboard_finds_it(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    left, right = clusters
    here, there, topic, group = (new_name(word) for word in ("here", "there", "t", "app"))
    create_topic(left, topic, partitions=2)
    produce(left, topic, numbered(500))
    port = claim_port()
    url = f"http://127.0.0.1:{port}/metrics"
    settings = {"topics": topic, "groups": group, "sync.group.offsets.enabled": "true"}
    lines = flow_properties(f"{here}->{there}", left, right, settings)
    run = MirrorProcess(tmp_path, f"{here}, {there}", lines, "--metrics-listener", f"http://127.0.0.1:{port}").start()
    try:
        run.wait_for_line("metrics are served at", COPY_S)
        run.wait_for_tasks(f"{here}->{there}")
        libraries = Path(f"/proc/{run.pid}/maps").read_text()
        assert "numpy" not in libraries, "the driver needs no arrays: pyspark has imported its test tools"
        assert "pyarrow" not in libraries
        ends = {("topic", f"{here}.{topic}"), ("source", here), ("target", there)}
        commit_offsets(left, {group: {(topic, 0): 1, (topic, 1): 1}})

        def copied() -> Scrapes | None:
            found = Scrapes(**LABELS)
            found.add(time.time(), get(url))
            counts = found.query("sum(kafka_connect_mirror_mirrorsourceconnector_record_count)")
            groups = found.query("kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms")
            return found if counts.get(()) == 500.0 and groups else None

        scrapes = wait_for(copied, COPY_S, "everything is counted")
        assert scrapes is not None
        produce(left, topic, numbered(10))
        scrapes.add(time.time() + 1, get(url))
        with_kubelet(scrapes)
        for title, query in strimzi_queries():
            assert scrapes.query(query), f"{title}: {query}"
        for labels in scrapes.query("kafka_connect_mirror_mirrorsourceconnector_record_count"):
            assert ends <= set(labels)
        beans = json.loads(get(f"{url}.json"))["value"]
        names = [name for name in beans if name.startswith("kafka.connect.mirror:type=MirrorSourceConnector,")]
        assert names == [
            f"kafka.connect.mirror:type=MirrorSourceConnector,source={here},target={there},"
            f"topic={here}.{topic},partition={number}"
            for number in (0, 1)
        ]
        assert sum(beans[name]["record-count"] for name in names) >= 500
    finally:
        run.kill()
        release_port(port)
