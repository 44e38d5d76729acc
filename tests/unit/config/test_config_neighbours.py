"""Flows of other hosts: this one does not run them, and must know of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import load
from twinlog.errors import ConfigError

FILE = """
clusters = a, b, c
a.bootstrap.servers = a-1:9092
b.bootstrap.servers = b-1:9092
c.bootstrap.servers = ${env:NOBODY_SET_THIS}
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
b->a.enabled = true
b->a.topics = v
a->b.enabled = true
a->b.topics = t
b->c.enabled = true
b->c.topics = u
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_flows_of_other_hosts_are_known_in_the_order_of_the_file(file: Path) -> None:
    config = load(file, ["b"])
    assert [flow.name for flow in config.flows if flow.enabled] == ["a->b"]
    # What is wrong with a cluster that only another host needs is no problem here.
    assert [(flow.name, flow.topics) for flow in config.all_enabled] == [
        ("a->b", ("t",)),
        ("b->a", ("v",)),
        ("b->c", ("u",)),
    ]


def test_a_cycle_over_two_hosts_is_refused_on_each(file: Path) -> None:
    file.write_text(f"{FILE}b->a.topics = t\n")
    for target in ("a", "b"):
        with pytest.raises(ConfigError, match="flows a->b and b->a both mirror t and keep the name"):
            load(file, [target])
        # As MirrorMaker 2, which copies in a cycle then; here the topic is left out.
        config = load(file, [target], unknown_keys="warn")
        assert any("a->b and b->a" in warning for warning in said(config.warnings))


def test_flows_with_only_heartbeats_leave_mirror_maker_2_its_groups_beside_a_flow_with_a_group_of_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mm2.properties"
    text = "clusters = a, b\na.bootstrap.servers = a-1:9092\nb.bootstrap.servers = b-1:9092\na->b.enabled = true\n"
    path.write_text(text)
    assert [flow.group_id for flow in load(path).flows] == ["a-mm2", "b-mm2"]
    path.write_text(f"{text}b.group.id = wave\n")
    assert [flow.group_id for flow in load(path).flows] == ["wave", "b-mm2-heartbeats"]
    path.write_text(f"{text}b.group.id = wave\na.group.id = back\n")
    assert [flow.group_id for flow in load(path).flows] == ["wave", "back"]
