"""Replication policies answer as Kafka's own classes do, and know twinlog's own topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.model.types import Alias, TopicName

RECORDED = Path(__file__).parents[3] / "recorded" / "policies.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["default", "identity"])
@pytest.mark.parametrize("separator", [".", "_", "--", ""])
def test_answers_are_those_of_kafkas_classes(kind: str, separator: str) -> None:
    rows = [row for row in ROWS if row["policy"] == kind and row["separator"] == separator]
    assert len(rows) > 50
    for row in rows:
        internal = separator if row["internal_separator_follows"] else "."
        policy = (
            DefaultReplicationPolicy(separator, internal)
            if kind == "default"
            else IdentityReplicationPolicy(separator, internal, Alias("east"))
        )
        topic = row["topic"]
        answers = {
            "remote_name": policy.remote_name(Alias("east"), topic),
            "source_alias": policy.source_alias(topic),
            "upstream_name": policy.upstream_name(topic),
            "is_heartbeats": policy.passes_as_heartbeats(topic),
            "is_checkpoints": policy.is_checkpoints(topic),
            "is_mirror_internal": policy.is_mirror_internal(topic),
            "is_internal": policy.is_internal(topic),
            "offset_syncs_topic": policy.offset_syncs_topic(Alias("w")),
            "checkpoints_topic": policy.checkpoints_topic(Alias("w")),
        }
        assert answers == {name: row[name] for name in answers}, topic


def test_twinlogs_own_topics_are_internal() -> None:
    assert DefaultReplicationPolicy().is_internal(TopicName("mm2-twinlog-progress"))
    assert IdentityReplicationPolicy(source=Alias("east")).is_internal(TopicName("mm2-twinlog-progress"))
    assert not DefaultReplicationPolicy().is_internal(TopicName("twinlog-progress"))
