"""Settings that contradict identical offsets are refused, for the topics that may have both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.own_code import read
from tests.unit.config.said import said
from twinlog.errors import ConfigError
from twinlog.model.types import TopicName

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
KEY = "a->b.twinlog.offsets"
HEADER = """\
a->b.transforms = f
a->b.transforms.f.type = org.apache.kafka.connect.transforms.InsertHeader
a->b.transforms.f.header = h
a->b.transforms.f.value.literal = v
"""


def problems(folder: Path, text: str) -> list[str]:
    try:
        read(folder, text)
    except ConfigError as error:
        return list(said(error.problems))
    return []


def test_the_mode_of_each_topic(tmp_path: Path) -> None:
    flow = read(tmp_path, f"{KEY} = identical\n{KEY}.logs-.* = translated\n").flows[0]
    names = ("orders", "logs-1", "heartbeats", "a.heartbeats")
    assert [flow.keeps_offsets(TopicName(name)) for name in names] == [True, False, False, False]


def test_policies_of_a_topic_that_keeps_its_offsets_leave_nothing_out(tmp_path: Path) -> None:
    flow = read(tmp_path, f"{KEY}.o.* = identical\na->b.twinlog.gap.policy.or.* = skip\n").flows[0]
    orders, others = TopicName("orders"), TopicName("order")
    assert flow.keeps_offsets(orders)
    assert [flow.held_policy("gap", topic) for topic in (orders, TopicName("reports"))] == ["hold", "hold"]
    assert flow.held_policy("gap", others) == "hold"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("b.exactly.once.source.support = enabled\n", "exactly.once.source.support = enabled"),
        ("b.exactly.once.source.support = preparing\n", "exactly.once.source.support = preparing"),
        (
            HEADER,
            "a transform",
        ),
        ("a->b.twinlog.gap.policy = skip\n", "twinlog.gap.policy"),
        ("a->b.twinlog.gap.policy.orders = continue\n", "twinlog.gap.policy"),
        ("a->b.twinlog.oversized.record.policy = skip\n", "twinlog.oversized.record.policy"),
        (
            "a->b.errors.tolerance = all\na->b.errors.deadletterqueue.topic.name = dead\n",
            "twinlog.oversized.record.policy",
        ),
    ],
)
@pytest.mark.parametrize("key", [KEY, f"{KEY}.orders"])
def test_what_leaves_offsets_out_is_refused(tmp_path: Path, key: str, more: str, found: str) -> None:
    text = problems(tmp_path, f"{key} = identical\n{more}")
    assert text
    assert all(f"{key.partition('.')[2]}: 'identical' together with" in line for line in text)
    assert found in text[0]


@pytest.mark.parametrize(
    "more",
    [
        "a->b.twinlog.gap.policy.other = skip\n",
        "a->b.twinlog.gap.policy = stop\n",
        "a->b.twinlog.gap.policy = skip\na->b.twinlog.gap.policy.orders = hold\n",
    ],
)
def test_policies_of_other_topics_are_free(tmp_path: Path, more: str) -> None:
    assert problems(tmp_path, f"{KEY}.orders = identical\n{more}") == []


def test_two_sources_of_a_topic_are_refused_whoever_writes_first(tmp_path: Path) -> None:
    more = (
        "clusters = a, b, c\nc.bootstrap.servers = c:9092\nc->b.enabled = true\ntopics = orders\n"
        f"replication.policy.class = {IDENTITY}\ntwinlog.shared.topics = first\n"
    )
    assert problems(tmp_path, more) == []
    (text,) = problems(tmp_path, f"{more}twinlog.offsets.orders = identical\n")
    assert "both write orders on b" in text
