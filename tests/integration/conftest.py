"""Two single-node clusters shared by all integration tests of a worker; a test that breaks nodes starts its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.checks.requests import LoopWatch
from harness.cluster import USERS, KafkaCluster, side_by_side
from tests.integration.copying import CopyFlow
from tests.integration.running import RunTwinlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
# Other passwords than the source's, so that mixed-up credentials are refused.
TARGET_USERS = {**USERS, "connect": "connect2-secret", "mirrormaker": "mirrormaker2-secret"}
# Quotas are means over two seconds instead of ten.
QUICK_QUOTAS = {"quota.window.num": "3"}
# A transaction that is open too long is aborted within half a second, not ten.
QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


LONGEST = (
    *("translate_command", "take_over", "resume", "parity", "sql", "topics", "proof", "election", "audit"),
    *("connect_commands", "writer_fence", "identical_transactions", "connect", "lost_on_target", "examples"),
    *("leases", "console", "held", "identical", "proof_behind", "identical_log_start", "strimzi", "dataframes_write"),
    *("run", "resume_copier", "migration", "stale_topic_ids", "reload", "exactly_once", "strimzi_pod", "translation"),
    *("demo", "resume_shapes", "switchover_trouble", "verify", "gaps_truncated", "replay", "conformance", "browser"),
    *("connect_secrets", "engine", "leases_slow_target", "connector_forms", "copy_memory", "dataframes", "distance"),
    *("metrics", "nearest_replica", "encrypted", "rights", "harness_clusters", "spread", "large_flow", "switchover"),
    *("plan", "starts", "topics_named_heartbeats", "checkpoints", "kafbat", "unreachable", "identical_brokers"),
    *("leftover_file", "wire_contract", "fetches_ahead", "gaps", "exactly_once_leases", "renamed_topics"),
    *("kafka_classes", "copy_throttled", "lost_unseen", "proof_run", "identical_run", "image", "heartbeats"),
    *("status", "sql_evaluation", "fetch_pauses", "gaps_run", "topic_reader", "topologies", "connect_start"),
    *("positions", "transforms", "sink_transactions", "smt_classes", "smt_mirror_maker", "formats", "submitted"),
)
"""Files that take longest, those that take longer first, and such as wait between such as compute. They are begun in
this order, so that no worker is left with one of them alone at the end. `make test` has pytest-xdist keep it, which
else begins with the files of most tests."""


def pytest_itemcollected(item: pytest.Item) -> None:
    # Before `-m` chooses among them.
    if HERE in item.path.parents:
        item.add_marker(pytest.mark.integration)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}

    def turn(item: pytest.Item) -> int:
        if HERE not in item.path.parents:
            return len(LONGEST) + 1
        return places.get(item.path.stem.removeprefix("test_"), len(LONGEST))

    items.sort(key=turn)


@pytest.fixture(scope="session", autouse=True)
def loop_watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopWatch]:
    """Every cluster that a test makes counts its requests from now on."""
    KafkaCluster.counts = tmp_path_factory.mktemp("counts")
    watch = LoopWatch(KafkaCluster.counts)
    yield watch
    watch.close()


@pytest.fixture(autouse=True)
def no_loop(loop_watch: LoopWatch) -> Iterator[None]:
    """Fails a test in which a client repeats a request without pause, see `harness.checks.requests.find_loops`."""
    loop_watch.look()
    yield
    loops = loop_watch.look()
    assert not loops, "\n".join(map(str, loops))


@pytest.fixture(scope="session")
def clusters() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Source and target, started side by side. Tests keep apart by topic and group names."""
    source = KafkaCluster("source", heap="384m", config=QUICK_QUOTAS)
    target = KafkaCluster("target", heap="384m", users=TARGET_USERS, config={**QUICK_QUOTAS, **QUICK_TIMEOUTS})
    with side_by_side(source, target) as both:
        yield both


@pytest.fixture(scope="session")
def source_cluster(clusters: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    """The cluster records come from; shared, so never kill or suspend it."""
    return clusters[0]


@pytest.fixture(scope="session")
def target_cluster(clusters: tuple[KafkaCluster, KafkaCluster]) -> KafkaCluster:
    """The cluster records are copied to; shared, so never kill or suspend it."""
    return clusters[1]


@pytest.fixture
def copy_flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[CopyFlow]:
    """Copies topics from one shared cluster to the other, without Spark."""
    flow = CopyFlow(source_cluster, target_cluster)
    try:
        yield flow
    finally:
        flow.close()


@pytest.fixture
def run_twinlog(tmp_path: Path) -> Iterator[RunTwinlog]:
    """Starts `twinlog run` with the lines of a properties file; what still runs is killed afterwards."""
    run = RunTwinlog(tmp_path)
    try:
        yield run
    finally:
        run.close()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a module. Its Python processes are forked, because Spark gives a new one ten
    seconds."""
    from twinlog.spark.session import SparkEngine

    engine = SparkEngine("local[2]", {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"})
    engine.start()
    try:
        yield engine._running
    finally:
        engine.stop(60)
