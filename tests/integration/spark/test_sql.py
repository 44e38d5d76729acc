"""A query of Spark SQL changes records between real clusters: what arrives, and what a killed JVM and copier leave."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.spark.cheap_sql import cheap_sql
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.copying import CopyFlow
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog
from tests.unit.connect.worker.whole_worker import whole_worker
from twinlog.cli.check import check_resource
from twinlog.config import load
from twinlog.config.queries import check_queries
from twinlog.errors import ConfigError
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.sql.transform import SHARED

COMMITTED = {"isolation_level": "read_committed"}


@pytest.fixture(scope="module", autouse=True)
def one_jvm() -> Iterator[None]:
    """All flows of this process have their queries evaluated by it."""
    with cheap_sql():
        yield
    SHARED.end()


def by(query: str, **how: Any) -> TransformSettings:
    return TransformSettings(sql=query, dead_letter_replication_factor=1, **how)


def values(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    return [one.value for one in consume(cluster, topic)]


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_records_are_left_out_masked_routed_and_written_as_dead_letters(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], mode: str
) -> None:
    remote, routed, dead = copy_flow.create(topic_name), new_name("thirds"), new_name("dead")
    produce(copy_flow.source, topic_name, numbered(60, start=1, keys=5, headers=True), per_batch=7)
    query = f"""
        SELECT 'no ' || regexp_replace(cast(value AS STRING), '[0-9]', '#') || ':'
                   || cast(100 div (cast(cast(value AS STRING) AS INT) - 30) AS STRING) AS value,
               if(cast(cast(value AS STRING) AS INT) % 3 = 0, '{routed}', topic) AS topic
        FROM records WHERE offset % 2 = 1"""
    how = by(query, tolerance="all", dead_letter_topic=dead, dead_letter_headers=True)
    running = copy_flow.copy(topic_name, consumer=COMMITTED, transform=how, exactly_once=mode)
    even = [number for number in range(2, 61, 2) if number != 30]
    made = {number: b"no %s:%d" % (b"#" * len(str(number)), int(100 / (number - 30))) for number in even}
    assert values(copy_flow.target, remote) == [made[number] for number in even if number % 3]
    assert values(copy_flow.target, routed) == [made[number] for number in even if number % 3 == 0]
    wait_for(lambda: dead in topics(copy_flow.target), 60, "the dead-letter topic is there")
    (letter,) = consume(copy_flow.target, dead)
    assert letter.value == b"30"
    assert dict(letter.headers)["__connect.errors.offset"] == b"29"
    assert (dict(letter.headers)["__connect.errors.exception.message"] or b"").startswith(b"[DIVIDE_BY_ZERO]")
    assert running.heard.failures == []


def test_a_killed_jvm_is_followed_by_another_and_skips_no_record(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    remote, dead = copy_flow.create(topic_name), new_name("dead")
    how = by("SELECT value || '!' AS value FROM records", tolerance="all", dead_letter_topic=dead)
    produce(copy_flow.source, topic_name, numbered(500), per_batch=11)
    running = copy_flow.start(topic_name, consumer=COMMITTED, transform=how)
    process = SHARED.running().process
    assert process is not None
    running.wait_for_position(topic_name, 200)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    produce(copy_flow.source, topic_name, numbered(500, start=500), per_batch=11)
    told = running.wait_for_event("transform")
    assert "Spark's JVM for transform.sql was killed by SIGKILL, evaluating " in told
    assert "; a new JVM is started; no record is" in told
    assert SHARED.running().process is not process
    copy_flow.wait_until_caught_up(running, topic_name)
    assert values(copy_flow.target, remote) == [b"%d!" % number for number in range(1000)]
    assert dead not in topics(copy_flow.target)


def test_a_copier_that_is_killed_with_its_jvm_leaves_each_record_once(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    query = "SELECT value || '!' AS value FROM records WHERE cast(cast(value AS STRING) AS INT) % 5 <> 0"
    settings: dict[str, Any] = {"consumer": COMMITTED, "transform": by(query), "exactly_once": "enabled"}
    produce(copy_flow.source, topic_name, numbered(300), per_batch=11)
    child = copy_flow.start_child(topic_name, **settings)
    wait_for(lambda: len(values(copy_flow.target, remote)) > 20, 300, "some records arrive")
    produce(copy_flow.source, topic_name, numbered(300, start=300), per_batch=11)
    child.kill()
    copy_flow.take_over()
    copy_flow.copy(topic_name, **settings)
    assert values(copy_flow.target, remote) == [b"%d!" % number for number in range(600) if number % 5]


def test_spark_runs_a_flow_whose_copier_has_a_jvm_of_its_own(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, run_twinlog: RunTwinlog, new_name: Callable[[str], str]
) -> None:
    topic = new_name("t")
    create_topic(source_cluster, topic)
    produce(source_cluster, topic, numbered(50))
    query = "SELECT value || '!' AS value FROM records WHERE offset >= 10"
    wanted = {"topics": topic, "transform.sql": query}
    process = run_twinlog(
        "left, right",
        flow_properties("left->right", source_cluster, target_cluster, wanted),
        *("--until", "caught-up"),
    )
    assert process.wait(300) == 0, process.log
    assert values(target_cluster, f"left.{topic}") == [b"%d!" % number for number in range(10, 50)]
    assert "py4j" not in process.log
    assert "Traceback" not in process.log


WRONG = "SELECT nokey FROM records"
RESOURCE = f"""\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mirror
spec:
  connectCluster: b
  clusters:
    - {{alias: a, bootstrapServers: "127.0.0.1:1"}}
    - {{alias: b, bootstrapServers: "127.0.0.1:2"}}
  mirrors:
    - sourceCluster: a
      targetCluster: b
      sourceConnector:
        config:
          transform.sql: {WRONG}
"""


def test_a_wrong_query_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """By its line in a file, and by its key where it comes to a worker. One JVM is asked for it, once."""
    file, resource = tmp_path / "mm2.properties", tmp_path / "mirror.yaml"
    clusters = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
    # Of two flows one takes the query for all.
    queries = f"a->b.transform.sql = {WRONG}\ntransform.sql = SELECT key FROM records\n"
    file.write_text(f"{clusters}{queries}b->a.enabled = true\n")
    with pytest.raises(ConfigError) as refused:
        check_queries(load(file).flows, file)
    (problem,) = refused.value.problems
    assert re.search(
        r"mm2.properties:5: a->b.transform.sql: \[UNRESOLVED_COLUMN.*`nokey`.*; write SELECT \.\.\. FROM rec",
        str(problem),
    )
    resource.write_text(RESOURCE)
    with pytest.raises(ConfigError, match=r"mirror.yaml:15: .*transform.sql: \[UNRESOLVED_COLUMN.*`nokey`"):
        check_resource(resource, None)
    connector = {
        "connector.class": "MirrorSource",
        "source.cluster.alias": "a",
        "source.cluster.bootstrap.servers": "127.0.0.1:1",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": "127.0.0.1:2",
        "transform.sql": WRONG,
    }
    with whole_worker() as (client, _):
        answer = client.ask("PUT", "/connectors/c/config", connector)
        assert answer.status == 400
        assert "for configuration transform.sql: [UNRESOLVED_COLUMN" in answer.message
        assert client.get("/connectors").json == []
        asked = {**connector, "name": "c", "transform.sql": "SELECT offset, VALUE AS key FROM records LIMIT 7"}
        for query, errors in ((asked["transform.sql"], 1), ("SELECT VALUE AS key FROM records", 0)):
            body = {**asked, "transform.sql": query}
            found = client.ask("PUT", "/connector-plugins/MirrorSource/config/validate", body).json
            assert found["error_count"] == errors, found
