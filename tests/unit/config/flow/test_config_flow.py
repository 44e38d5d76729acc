"""What each key of a flow comes to in its settings, and which settings are refused together."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import MirrorConfig, load
from twinlog.errors import ConfigError

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
COMMITTED = "a.consumer.isolation.level = read_committed\n"
EXACTLY_ONCE = "b.exactly.once.source.support = enabled\n" + COMMITTED


def read(folder: Path, text: str) -> MirrorConfig:
    file = folder / "mm2.properties"
    file.write_text(BASE + text, "utf-8")
    return load(file)


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("groups = g.*, h\n", "groups", ("g.*", "h")),
        ("groups =\n", "groups", ()),
        ("a->b.groups.exclude = x\ngroups.exclude = y\n", "groups_exclude", ("x",)),
        ("groups.blacklist = x\n", "groups_exclude", ("x",)),
        ("groups.blacklist = x\na->b.groups.exclude = y\n", "groups_exclude", ("y",)),
        ("refresh.groups.interval.seconds = 600\n", "refresh_groups_interval_s", 600.0),
        ("refresh.groups.interval.seconds = -1\n", "refresh_groups_interval_s", None),
        ("refresh.groups.enabled = False\n", "refresh_groups_interval_s", None),
        ("emit.checkpoints.interval.seconds = 60\n", "emit_checkpoints_interval_s", 60.0),
        ("emit.checkpoints.interval.seconds = 0\n", "emit_checkpoints_interval_s", 0.1),
        ("a->b.emit.checkpoints.enabled = false\n", "emit_checkpoints_interval_s", None),
        ("sync.group.offsets.enabled = true\n", "sync_group_offsets_interval_s", 1.0),
        (
            "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 60\n",
            "sync_group_offsets_interval_s",
            60.0,
        ),
        ("sync.group.offsets.interval.seconds = 60\n", "sync_group_offsets_interval_s", None),
        ("sync.topic.configs.interval.seconds = 600\n", "sync_topic_configs_interval_s", 600.0),
        ("sync.topic.configs.enabled = false\n", "sync_topic_configs_interval_s", None),
        ("use.incremental.alter.configs = never\n", "alter_configs", "never"),
        ("sync.topic.acls.interval.seconds = 7\n", "sync_topic_acls_interval_s", 7.0),
        ("sync.topic.acls.enabled = false\n", "sync_topic_acls_interval_s", None),
        ("emit.heartbeats.interval.seconds = 0\n", "emit_heartbeats_interval_s", 0.1),
        ("emit.heartbeats.interval.seconds = -5\n", "emit_heartbeats_interval_s", None),
        ("heartbeats.topic.replication.factor = -1\n", "heartbeats_replication_factor", -1),
        ("checkpoints.topic.replication.factor = 1\n", "checkpoints_replication_factor", 1),
        ("offset-syncs.topic.replication.factor = 2\n", "offset_syncs_replication_factor", 2),
        ("offset-syncs.topic.location = target\n", "offset_syncs_location", "target"),
        ("emit.offset-syncs.enabled = false\n", "emit_offset_syncs", False),
        ("offset.lag.max = 0\n", "offset_lag_max", 0),
        ("offset.lag.max = -3\n", "offset_lag_max", 0),
        ("b.group.id = workers\n", "group_id", "workers"),
        ("", "group_id", "a-mm2"),
        ("a.group.id = of-the-other-cluster\n", "group_id", "a-mm2"),
        ("b.exactly.once.source.support = Preparing\n", "exactly_once", "preparing"),
        (EXACTLY_ONCE, "exactly_once", "enabled"),
        ("a.exactly.once.source.support = enabled\n", "exactly_once", "disabled"),
        ("a->b.transaction.boundary = Interval\n", "transaction_boundary", "interval"),
        ("a->b.transaction.boundary.interval.ms = 250\n", "transaction_interval_ms", 250),
        ("b.producer.transaction.timeout.ms = 9000\n", "producer.transaction_timeout_ms", 9000),
        ("b.offset.storage.topic = all\n", "positions_topic", "all"),
        ("b.offset.storage.topic = all\na->b.offsets.storage.topic = mine\n", "positions_topic", "mine"),
        ("", "earlier_positions_topic", None),
        ("b.offset.storage.topic = all\n", "earlier_positions_topic", None),
        ("a->b.offsets.storage.topic = mine\n", "earlier_positions_topic", "mm2-offsets.a.internal"),
        ("b.offset.storage.topic = all\na->b.offsets.storage.topic = mine\n", "earlier_positions_topic", "all"),
        ("heartbeats.replication.enabled = false\n", "heartbeats_replication_enabled", False),
    ],
)
def test_a_key_reaches_its_setting(tmp_path: Path, text: str, setting: str, value: object) -> None:
    assert attrgetter(setting)(read(tmp_path, text).flows[0]) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "refresh.groups.interval.seconds = 0\n",
            ":5: refresh.groups.interval.seconds: '0' is invalid; write seconds as a whole number of 1 or more",
        ),
        ("emit.heartbeats.interval.seconds = 2147483648\n", "to 2147483647"),
        (
            "checkpoints.topic.replication.factor = 0\n",
            "write a whole number of 1 or more, or -1 for the default of the brokers",
        ),
        ("offset-syncs.topic.location = Target\n", "'Target' is invalid; write source or target"),
        ("a->b.transaction.boundary = connector\n", "'connector' is invalid; write poll or interval"),
        (
            "emit.offset-syncs.enabled = false\noffset-syncs.topic.replication.factor = 1\n",
            ":5: emit.offset-syncs.enabled: 'false' together with offset-syncs.topic.replication.factor of line 6",
        ),
        (
            "a->b.exactly.once.support = required\n",
            "write b.exactly.once.source.support = enabled and a.consumer.isolation.level = read_committed",
        ),
        (
            "a->b.exactly.once.support = REQUIRED\nb.exactly.once.source.support = preparing\n" + COMMITTED,
            "'REQUIRED' is invalid; write b.exactly.once.source.support = enabled",
        ),
        ("transforms = x\n", ":5: a->b.transforms.x.type: missing; write the class of the transform 'x'"),
        ("forwarding.admin.class = com.example.Admin\n", "own Java classes are unsupported here"),
    ],
)
def test_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("emit.offset-syncs.enabled = false\n", "checkpoints and offsets of groups are off in the flow a->b"),
        (
            "sync.group.offsets.enabled = true\nemit.checkpoints.enabled = false\n",
            "set emit.checkpoints.enabled = true",
        ),
        ("b.exactly.once.source.support = enabled\n", "also copies records of open and aborted transactions"),
        ("topics.blacklist = x\n", "topics.blacklist: an old name; write topics.exclude"),
        ("groups.blacklist = x\n", "groups.blacklist: an old name; write groups.exclude"),
    ],
)
def test_warned_of(tmp_path: Path, text: str, words: str) -> None:
    (warning,) = said(read(tmp_path, text).warnings)
    assert words in warning


@pytest.mark.parametrize(
    "text",
    [
        EXACTLY_ONCE + "a->b.exactly.once.support = required\n",
        "emit.offset-syncs.enabled = false\nemit.checkpoints.enabled = false\n",
        "emit.offset-syncs.enabled = true\noffset-syncs.topic.location = target\n",
        # A flow that is not enabled promises nothing.
        "b->a.emit.offset-syncs.enabled = false\nb->a.offset-syncs.topic.location = target\n",
    ],
)
def test_nothing_to_say(tmp_path: Path, text: str) -> None:
    assert said(read(tmp_path, text).warnings) == ()


def test_keys_for_java_are_named_in_one_warning(tmp_path: Path) -> None:
    text = "auto.include.jmx.reporter = true\nerrors.retry.timeout = 7\n"
    more = "dedicated.mode.enable.internal.rest = true\nadmin.timeout.ms = 5\n"
    (warning,) = said(read(tmp_path, text + more).warnings)
    assert warning == (
        f"{tmp_path}/mm2.properties:5: these keys are for Connect's workers and Kafka's Java clients, and are ignored "
        "here: auto.include.jmx.reporter, errors.retry.timeout, dedicated.mode.enable.internal.rest, admin.timeout.ms"
    )


def test_without_checkpoints_no_offsets_are_committed(tmp_path: Path) -> None:
    flow = read(tmp_path, "sync.group.offsets.enabled = true\nemit.offset-syncs.enabled = false\n").flows[0]
    assert flow.emit_checkpoints_interval_s is None
    assert flow.sync_group_offsets_interval_s is None
