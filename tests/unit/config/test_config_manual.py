"""Files of the kind that MirrorMaker 2's manuals show, with their slips, load as MirrorMaker 2 loads them.

They are read as `connect-mirror-maker` reads them: a key that nobody knows is a warning. What is refused is what
MirrorMaker 2 could not start with either.
"""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import MirrorConfig, load
from twinlog.errors import ConfigError

TWO = """\
clusters = us-west, us-east
us-west.bootstrap.servers = broker3-west:9092
us-east.bootstrap.servers = broker5-east:9092
us-west->us-east.enabled = true
"""

SIX = """\
clusters: west-1, west-2, east-1, east-2, north-1, north-2
west-1.bootstrap.servers = w1:9092
west-2.bootstrap.servers = w2:9092
east-1.bootstrap.servers = e1:9092
east-2.bootstrap.servers = e2:9092
north-1.bootstrap.servers = n1:9092
north-2.bootstrap.servers = n2:9092
west-1->west-2.enabled = true
west-2->west-1.enabled = true
east-1->east-2.enabled = true
east-2->east-1.enabled = true
north-1->north-2.enabled = true
north-2->north-1.enabled = true
west-1->east-1.enabled = true
west-1->north-1.enabled = true
east-1->west-1.enabled = true
east-1->north-1.enabled = true
north-1->west-1.enabled = true
north-1->east-1.enabled = true
"""


def read(folder: Path, text: str, clusters: list[str] | None = None) -> MirrorConfig:
    file = folder / "connect-mirror-maker.properties"
    file.write_text(text, "latin-1")
    return load(file, clusters, unknown_keys="warn")


ACCEPTED = [
    # Active and passive.
    (
        """\
        clusters = primary, secondary
        primary.bootstrap.servers = broker3-primary:9092
        secondary.bootstrap.servers = broker5-secondary:9092
        primary->secondary.enabled = true
        primary->secondary.topics = foobar-topic, quux-.*
        """,
        {"name": "primary->secondary", "topics": ("foobar-topic", "quux-.*")},
        [],
    ),
    # Comments after values, and a dot for a dash.
    (
        """\
        clusters = us-west, us-east # defines the aliases
        us-west.bootstrap.servers = broker3-west:9092
        us-east.bootstrap.servers = broker5-east:9092
        topics = .* # all of them
        us-west->us-east.enabled = true
        us-west->us.east.topics = foo.*, bar.* # instead
        """,
        {"topics": (".*",)},
        ["'us-west, us-east'", "'.*'", "us-west->us.east.topics: unknown key, ignored; .*us-west->us-east.topics"],
    ),
    (TWO + "tasks.max = 5\n", {"tasks_max": 5}, []),
    (
        TWO + "us-east.offset.storage.topic = my-mirrormaker-offsets\n",
        {"positions_topic": "my-mirrormaker-offsets"},
        [],
    ),
    # Below the source's alias it is the setting of flows that lead there.
    (TWO + "us-west.offset.storage.topic = x\n", {"positions_topic": "mm2-offsets.us-west.internal"}, []),
    (
        TWO + "us-west.consumer.isolation.level = read_committed\nus-west.admin.bootstrap.servers = other:9092\n"
        "us-east.producer.compression.type = gzip\nus-east.producer.buffer.memory = 32768\n"
        "us-east.admin.bootstrap.servers = broker8:9092\n",
        {
            "consumer.isolation_level": "read_committed",
            "source_admin.client.bootstrap_servers": ("other:9092",),
            "consumer.client.bootstrap_servers": ("broker3-west:9092",),
            "producer.compression_type": "gzip",
            "target_admin.client.bootstrap_servers": ("broker8:9092",),
        },
        ["are ignored here: us-east.producer.buffer.memory"],
    ),
    # The two steps to exactly-once.
    (
        TWO + "us-east.exactly.once.source.support = preparing\nus-west.consumer.isolation.level = read_committed\n",
        {"exactly_once": "preparing"},
        [],
    ),
    (
        TWO + "us-east.exactly.once.source.support = enabled\ndedicated.mode.enable.internal.rest = true\n"
        "listeners = http://localhost:8080\nus-west.consumer.isolation.level = read_committed\n",
        {"exactly_once": "enabled", "group_id": "us-west-mm2"},
        ["are ignored here: dedicated.mode.enable.internal.rest, listeners"],
    ),
    # Defaults for all flows and settings of one, with a key that does not exist.
    (
        TWO + "topics = .*\ngroups = consumer-group1, consumer-group2\nus-west->us-east.topics = foo.*\n"
        "us-west->us-east.groups = bar.*\nus-west->us-east.emit.heartbeats = false\n",
        {"topics": ("foo.*",), "groups": ("bar.*",), "emit_heartbeats_interval_s": 1.0},
        ["us-west->us-east.emit.heartbeats: unknown key, ignored; .*emit.heartbeats.enabled"],
    ),
    # The filters that manuals for 3.x give as the default; a single backslash goes with the file's syntax.
    (
        TWO + "topics.exclude = .*[\\-\\.]internal, .*\\.replica, __.*\n",
        {"topics_exclude": (".*[-.]internal", ".*.replica", "__.*")},
        [],
    ),
    (
        TWO + "topics.blacklist = .*[\\\\-\\\\.]internal, .*\\\\.replica, __consumer_offsets\n"
        "groups.blacklist = console-consumer-.*, connect-.*, __.*\n",
        {
            "topics_exclude": (r".*[\-\.]internal", r".*\.replica", "__consumer_offsets"),
            "groups_exclude": ("console-consumer-.*", "connect-.*", "__.*"),
        },
        ["topics.blacklist: an old name", "groups.blacklist: an old name"],
    ),
    (TWO + "us-west->us-east.replication.policy.separator = _\n", {"separator": "_"}, []),
    (
        TWO + "replication.policy.class = io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy\n"
        "replication.factor = -1\noffset-syncs.topic.replication.factor = -1\n"
        "heartbeats.topic.replication.factor = -1\n"
        "checkpoints.topic.replication.factor = -1\nus-east.offset.storage.replication.factor = -1\n"
        "us-east.config.storage.replication.factor = -1\nus-east.status.storage.replication.factor = -1\n"
        "sync.group.offsets.enabled = true\nrefresh.groups.interval.seconds = 60\n",
        {"policy": "identity", "checkpoints_replication_factor": -1, "sync_group_offsets_interval_s": 1.0},
        [
            "replication.policy.class: .*io.strimzi.* is read as org.apache.kafka.*IdentityReplicationPolicy",
            "are ignored here: us-east.config.storage.replication.factor, us-east.status.storage.replication.factor",
        ],
    ),
    # A singular for a plural.
    (
        TWO + "emit.checkpoint.enabled = false\nemit.heartbeat.interval.seconds = 9\n"
        "key.converter =  org.apache.kafka.connect.converters.ByteArrayConverter\n",
        {"emit_checkpoints_interval_s": 1.0, "emit_heartbeats_interval_s": 1.0},
        [
            "emit.checkpoint.enabled: .*emit.checkpoints.enabled",
            "emit.heartbeat.interval.seconds: .*emit.heartbeats.interval.seconds",
            "are ignored here: key.converter",
        ],
    ),
    # Two flows, and two processes that give them different settings.
    (TWO + "us-east->us-west.enabled = true\nus-west->us-east.topics = foo\n", {"topics": ("foo",)}, []),
    (TWO + "us-east->us-west.enabled = false\n", {"enabled": True}, []),
]


@pytest.mark.parametrize(("text", "settings", "warnings"), ACCEPTED)
def test_loads(tmp_path: Path, text: str, settings: dict[str, object], warnings: list[str]) -> None:
    config = read(tmp_path, text)
    flow = config.flows[0]
    assert {path: attrgetter(path)(flow) for path in settings} == settings
    assert len(said(config.warnings)) == len(warnings), said(config.warnings)
    for pattern in warnings:
        assert any(re.search(pattern, warning) for warning in said(config.warnings)), (pattern, said(config.warnings))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Without its first line.
        (TWO.partition("\n")[2], "clusters: missing; write cluster aliases"),
        # An alias with a capital letter leaves the other one without brokers.
        (
            TWO.replace("us-east.boot", "Us-east.boot") + "us-east->us-west.enabled = true\n",
            "us-east.bootstrap.servers: missing",
        ),
        (SIX.replace("n2:9092", "..."), "north-2.bootstrap.servers: '...' is invalid; write host:port"),
        (
            TWO + "us-east.security.protocol=SSL\nus-east.ssl.truststore.location=/path/to/truststore.jks\n"
            "us-east.ssl.truststore.password=my-secret\nus-east.ssl.key.password=my-secret\n",
            "us-east.ssl.truststore.location: '/path/to/truststore.jks' is unreadable (no such file or directory)",
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert "my-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("clusters", "copied", "heartbeats"),
    [
        (
            ["west-1", "west-2"],
            ["west-1->west-2", "west-2->west-1", "east-1->west-1", "north-1->west-1"],
            6,
        ),
        (["north-2"], ["north-1->north-2"], 4),
        (None, [line.split(".enabled")[0] for line in SIX.splitlines() if "enabled" in line], 18),
    ],
)
def test_three_data_centres(tmp_path: Path, clusters: list[str] | None, copied: list[str], heartbeats: int) -> None:
    config = read(tmp_path, SIX, clusters)
    assert sorted(flow.name for flow in config.flows if flow.enabled) == sorted(copied)
    assert len([flow for flow in config.flows if not flow.enabled]) == heartbeats
    assert said(config.warnings) == ()


def test_own_keys_must_be_right_even_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"twinlog\.gap\.polcy: unknown key"):
        read(tmp_path, TWO + "twinlog.gap.polcy = continue\n")
    with pytest.raises(ConfigError, match=r"completely\.different: unknown key"):
        read(tmp_path, TWO + "completely.different = 1\ntwinlog.unknown.keys = fail\n")


NO_FLOW = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na -> b.enabled = true\n"


def test_a_file_that_enables_nothing_writes_heartbeats_as_in_mirrormaker(tmp_path: Path) -> None:
    """Where twinlog's own command refuses it: a flow was forgotten, here by blanks that end the key."""
    config = read(tmp_path, NO_FLOW)
    assert [flow.name for flow in config.flows if flow.enabled] == []
    assert {flow.name for flow in config.flows} == {"a->b", "b->a"}
    assert "all flows to b, a are off; only heartbeats are written there; to copy, write a->b.enabled = true" in (
        "\n".join(said(config.warnings))
    )
    assert any(
        "did you mean a->b.enabled? a key ends at its first blank" in warning for warning in said(config.warnings)
    )
    with pytest.raises(ConfigError, match="a key ends at its first blank"):
        load(tmp_path / "connect-mirror-maker.properties")
    with pytest.raises(ConfigError, match="all flows are off"):
        read(tmp_path, NO_FLOW + "emit.heartbeats.interval.seconds = -1\n")
