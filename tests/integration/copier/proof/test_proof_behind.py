"""A proof that is behind, with real brokers: what the clusters deleted or cleaned meanwhile is no difference."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from harness.acls import Acl, create_acls
from harness.cluster import USERS, KafkaCluster
from harness.produce import numbered, produce
from harness.topics import delete_records, offsets, topics
from harness.wait import wait_for
from tests.integration.copier.batches.test_copy_compacted import CLEANED, wait_until_cleaned, write_segments
from tests.integration.copier.proof.test_proof import blind, proof_of, wait_proven
from tests.integration.copying import CopyFlow, RunningCopier, flow_settings
from tests.integration.records import lively
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ProducerSettings

SINGLY = {"merge_batch_bytes": 0}
BEHIND_S = 5.0


def begin(flow: CopyFlow, topic: str) -> RunningCopier:
    """A copier that has proven first records of a topic."""
    produce(flow.source, topic, numbered(20))
    running = flow.start(topic, proof=True, producer=SINGLY)
    wait_proven(flow, running, topic)
    return running


def end(flow: CopyFlow, running: RunningCopier, topic: str) -> None:
    """All is proven or left out, without a difference."""
    produce(flow.source, topic, numbered(20, keys=5))
    wait_proven(flow, running, topic)
    time.sleep(4)
    assert running.copier.tally.differences == {}
    assert running.events("proof") == []
    running.release()
    assert running.heard.held == []


def test_records_that_the_source_deleted_before_their_proof(copy_flow: CopyFlow, topic_name: str) -> None:
    """The remote topic has another codec, so that only the source's records tell whether a batch is the same."""
    copy_flow.create(topic_name, remote_config={"compression.type": "gzip"})
    running = begin(copy_flow, topic_name)
    proof = proof_of(running, topic_name)
    with blind(running):
        produce(copy_flow.source, topic_name, lively(400), per_batch=7)
        copy_flow.wait_until_caught_up(running, topic_name)
        delete_records(copy_flow.source, topic_name, 200)
        time.sleep(BEHIND_S)
    end(copy_flow, running, topic_name)
    assert proof.proven.unproved >= 100
    assert proof.proven.records >= 40


@pytest.mark.parametrize("config", [{}, CLEANED], ids=["the target alone", "both sides"])
def test_records_that_were_compacted_before_their_proof(
    copy_flow: CopyFlow, topic_name: str, config: dict[str, str]
) -> None:
    """With tombstones, whose batches get a delete horizon in place of their first timestamp."""
    remote = copy_flow.create(topic_name, config=config, remote_config=CLEANED)
    running = copy_flow.start(topic_name, proof=True, producer=SINGLY)
    with blind(running):
        write_segments(copy_flow.source, topic_name, "lz4")
        copy_flow.wait_until_caught_up(running, topic_name)
        wait_until_cleaned(copy_flow.target, remote)
        if config:
            wait_until_cleaned(copy_flow.source, topic_name)
    end(copy_flow, running, topic_name)


@pytest.mark.scenario
def test_a_backlog_of_small_appends_is_caught_up(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    running = begin(copy_flow, topic_name)
    with blind(running):
        produce(copy_flow.source, topic_name, lively(20_000, size=200), per_batch=2)
        copy_flow.wait_until_caught_up(running, topic_name)
        time.sleep(BEHIND_S)
    begun = time.monotonic()
    wait_proven(copy_flow, running, topic_name)
    assert time.monotonic() - begun < 5.0
    end(copy_flow, running, topic_name)


def test_a_missing_right_leaves_the_other_topics_in_the_proof(
    source_cluster: KafkaCluster, topic_name: str, new_name: Callable[[str], str]
) -> None:
    user, other = "User:mirrormaker", new_name("other")
    with KafkaCluster("guarded", acls=True, heap="256m") as target, closing(CopyFlow(source_cluster, target)) as flow:
        remote = flow.create(topic_name)
        flow.create(other)
        rights = [Acl(name, user, "ALL") for name in topics(target) if name != remote]
        create_acls(target, [*rights, Acl(remote, user, "WRITE"), Acl(remote, user, "DESCRIBE_CONFIGS")])
        login = ClientSettings(
            (target.sasl_bootstrap,),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="mirrormaker",
            sasl_password=USERS["mirrormaker"],
        )
        running = RunningCopier(
            replace(flow_settings(source_cluster, target, proof=True), producer=ProducerSettings(login))
        )
        try:
            running.grant([flow.grant(TopicPartition(TopicName(name), 0)) for name in (topic_name, other)])
            for name in (topic_name, other):
                produce(source_cluster, name, numbered(20))
                running.wait_for_position(name, offsets(source_cluster, name)[1])
            wait_proven(flow, running, other)
            assert f"lacks READ on topic {remote}" in running.wait_for_event("proof")
            time.sleep(BEHIND_S)
            produce(source_cluster, other, numbered(20))
            wait_proven(flow, running, other)
            assert len(running.events("proof")) == 1
            proof = proof_of(running, topic_name)
            assert proof.proven.records == 0
            create_acls(target, [Acl(remote, user, "READ")])
            wait_for(lambda: proof.proven.records == 20, 30.0, "the topic is proven")
            assert running.copier.tally.differences == {}
            running.release()
        finally:
            running.crash()
