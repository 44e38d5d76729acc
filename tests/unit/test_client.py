"""The client reads the way of a topic from its name as Kafka's MirrorClient does, and gives up in time."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path

import pytest

from twinlog.client import MirrorClient, translate_offsets
from twinlog.errors import ClusterError
from twinlog.mirror.topology import naming as chains
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import ClientSettings

RECORDED = Path(__file__).parents[1] / "recorded" / "clients.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["default", "identity"])
@pytest.mark.parametrize("separator", [".", "_"])
def test_answers_are_those_of_kafkas_client(kind: str, separator: str) -> None:
    rows = [row for row in ROWS if row["policy"] == kind and row["separator"] == separator]
    assert len(rows) > 20
    policy = (
        DefaultReplicationPolicy(separator, separator)
        if kind == "default"
        else IdentityReplicationPolicy(separator, separator, Alias("east"))
    )
    for row in rows:
        topic = TopicName(row["topic"])
        answers = {
            "is_heartbeats": policy.passes_as_heartbeats(topic),
            "is_checkpoints": policy.is_checkpoints(topic),
            "is_remote": chains.is_remote(policy, topic),
            "sources": sorted(chains.sources(policy, topic)),
            "hops": {alias: chains.hops(policy, topic, Alias(alias)) for alias in row["hops"]},
        }
        assert answers == {name: row[name] for name in answers}, topic


def test_a_cluster_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ClientSettings((f"127.0.0.1:{silent.getsockname()[1]}",))
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=r"^cluster at "):
            translate_offsets(settings, "east", re.compile(".*"), 0.5)
        assert time.monotonic() - begin < settings.request_timeout_ms / 1000


def test_a_cluster_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        settings = ClientSettings((f"127.0.0.1:{gone.getsockname()[1]}",))
    client = MirrorClient(settings)
    client.close()
    with pytest.raises(ClusterError), client:
        client.translate_offsets("east", "group", 0.5)
