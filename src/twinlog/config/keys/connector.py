"""Keys of a flow that MirrorMaker 2's connectors have.

Names, types and defaults are Kafka 4.3's (classes MirrorConnectorConfig, MirrorSourceConfig, MirrorCheckpointConfig and
MirrorHeartbeatConfig), plus their earlier names.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import (
    AT_ONCE,
    HIGH,
    LOW,
    PAUSE,
    RESTART,
    Effect,
    Importance,
    Key,
    KeyType,
    Level,
    Shown,
    ValueForm,
    ValueReplacement,
    Width,
    setting,
)
from twinlog.settings.flow import FlowSettings

_MIRROR = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = _MIRROR + "DefaultReplicationPolicy"
IDENTITY_POLICY = _MIRROR + "IdentityReplicationPolicy"
_LIKE_IDENTITY = (
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    "ch.mawileo.kafka.mm2.PrefixlessReplicationPolicy",
    "com.kafka.mirror.PrefixlessReplicationPolicy",
    "com.instaclustr.kafka.connect.mirror.SimpleReplicationPolicy",
    _MIRROR + "LegacyReplicationPolicy",
)
"""Published classes that keep the names of topics: Strimzi's, AWS's sample for moves to MSK, the classes of two public
examples, Instaclustr's, and the class that the README of Kafka's own module connect/mirror names."""

IDENTITY_POLICIES = (IDENTITY_POLICY, *_LIKE_IDENTITY)

CLASS_KEYS = (
    "replication.policy.class",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
)
"""Keys that may name a Python class."""

_flow = partial(Key, level=Level.FLOW)
_flow_setting = partial(setting, FlowSettings, level=Level.FLOW)

BOOL, INT, LONG, SHORT = KeyType.BOOL, KeyType.INT, KeyType.LONG, KeyType.SHORT
LIST, STRING, CLASS, ENUM = KeyType.LIST, KeyType.STRING, KeyType.CLASS, KeyType.ENUM
JVM = Effect.JVM

_LONGEST_S = 2**31 - 1


def _interval(name: str, doc: str, theirs: int | None = None, *, zero: bool = False) -> Key:
    """`theirs` is MirrorMaker 2's default if it differs; with `zero` an interval of 0 is allowed."""
    kafka = "" if theirs is None else f" ({theirs} in MirrorMaker 2)"
    often = "0 means ten times a second, " if zero else ""
    doc = f"Seconds between two {doc}{kafka}; {often}a negative value turns them off."
    return _flow_setting(name, LONG, doc, maximum=_LONGEST_S, nonzero=not zero, update=AT_ONCE, shown=LOW)


def _within(name: str, doc: str, theirs: int, *, zero: bool = False) -> Key:
    """The longest time until something is seen, which often is seen sooner; the rest is as in `_interval`."""
    often = "0 means ten times a second, " if zero else ""
    doc = f"Seconds within which {doc} ({theirs} in MirrorMaker 2); {often}a negative value turns it off."
    return _flow_setting(name, LONG, doc, maximum=_LONGEST_S, nonzero=not zero, update=AT_ONCE, shown=LOW)


def _replicas(name: str, topic: str) -> Key:
    doc = f"Replicas of a new {topic} topic; -1 takes the broker's default."
    return _flow_setting(name, SHORT, doc, minimum=-1, nonzero=True, update=RESTART, shown=LOW)


SOURCE_KEYS = (
    _flow_setting(
        "topics",
        LIST,
        "Topics to mirror: expressions that match whole names.",
        form=ValueForm.PATTERNS,
        update=AT_ONCE,
        shown=HIGH,
    ),
    _flow_setting(
        "topics.exclude",
        LIST,
        "Topics to leave out; wins over `topics`.",
        form=ValueForm.PATTERNS,
        old_name="topics.blacklist",
        update=AT_ONCE,
        shown=HIGH,
    ),
    _flow(
        "topics.blacklist",
        LIST,
        None,
        "Old name of `topics.exclude`; the new name wins.",
        form=ValueForm.PATTERNS,
        update=AT_ONCE,
        shown=Shown(Importance.HIGH, until=(4, 0)),
    ),
    _flow(
        "topic.filter.class",
        CLASS,
        _MIRROR + "DefaultTopicFilter",
        "Class that chooses topics.",
        accepted_classes=(_MIRROR + "DefaultTopicFilter",),
        custom=True,
        update=RESTART,
        shown=LOW,
    ),
    _flow_setting(
        "tasks.max",
        INT,
        "Most Spark tasks of the flow.",
        minimum=1,
        update=RESTART,
        shown=Shown(Importance.HIGH, "Common", Width.SHORT, "Tasks max"),
    ),
    _flow_setting(
        "replication.factor",
        INT,
        "Replicas of each new remote topic; -1 takes the target broker's default.",
        minimum=-1,
        nonzero=True,
        update=RESTART,
        shown=LOW,
    ),
    _flow(
        "replication.policy.class",
        CLASS,
        DEFAULT_POLICY,
        "Class that names remote topics: with the source alias in front, with the same name, or by rules of your own.",
        accepted_classes=(DEFAULT_POLICY, IDENTITY_POLICY),
        custom=True,
        way_out=f"; for a class that keeps the names of topics write {IDENTITY_POLICY}",
        instead=ValueReplacement(
            IDENTITY_POLICY, "that class keeps the names of topics, as this class does", _LIKE_IDENTITY
        ),
        update=RESTART,
        shown=LOW,
    ),
    _flow_setting(
        "replication.policy.separator",
        STRING,
        "Text between alias and topic in remote names; may be [empty](#names-that-are-kept).",
        form=ValueForm.TOPIC_PART_OR_NOTHING,
        update=RESTART,
        shown=LOW,
    ),
    _flow_setting(
        "replication.policy.internal.topic.separator.enabled",
        BOOL,
        "Uses the separator in names of internal topics, too; `false` keeps their dots.",
        update=RESTART,
        shown=LOW,
    ),
    _flow(
        "refresh.topics.enabled",
        BOOL,
        "true",
        "Looks for new topics and partitions.",
        update=AT_ONCE,
        shown=LOW,
    ),
    _flow_setting(
        "refresh.topics.interval.seconds",
        LONG,
        "Seconds between two looks for new topics and partitions (600 in MirrorMaker 2); a negative value turns "
        "them off.",
        maximum=_LONGEST_S,
        nonzero=True,
        update=AT_ONCE,
        shown=LOW,
    ),
    _flow_setting(
        "config.properties.exclude",
        LIST,
        "Topic settings that are left out: the remote topic keeps its own values.",
        form=ValueForm.PATTERNS,
        old_name="config.properties.blacklist",
        update=AT_ONCE,
        shown=HIGH,
    ),
    _flow(
        "config.properties.blacklist",
        LIST,
        None,
        "Old name of `config.properties.exclude`; the new name wins.",
        form=ValueForm.PATTERNS,
        update=AT_ONCE,
        shown=Shown(Importance.HIGH, until=(4, 0)),
    ),
    _flow(
        "config.property.filter.class",
        CLASS,
        _MIRROR + "DefaultConfigPropertyFilter",
        "Class that chooses topic settings.",
        accepted_classes=(_MIRROR + "DefaultConfigPropertyFilter",),
        custom=True,
        update=RESTART,
        shown=LOW,
    ),
    _flow_setting(
        "heartbeats.replication.enabled",
        BOOL,
        "Mirrors every topic whose name ends in the separator and `heartbeats`, past the filter.",
        update=AT_ONCE,
        shown=Shown(Importance.LOW, since=(4, 0)),
    ),
    _flow(
        "sync.topic.configs.enabled",
        BOOL,
        "true",
        "Keeps settings of remote topics equal to the source's.",
        update=PAUSE,
        shown=LOW,
    ),
    _interval("sync.topic.configs.interval.seconds", "syncs of topic settings", 600),
    _flow(
        "sync.topic.acls.enabled", BOOL, "true", "Copies ACLs of topics to remote topics.", update=AT_ONCE, shown=LOW
    ),
    _interval("sync.topic.acls.interval.seconds", "syncs of ACLs", 600),
    _flow_setting(
        "emit.offset-syncs.enabled",
        BOOL,
        "Writes offset syncs: pairs of a source offset and its target offset.",
        update=PAUSE,
        shown=LOW,
    ),
    _flow_setting(
        "offset-syncs.topic.location",
        ENUM,
        "Cluster of the offset-syncs topic.",
        choices=("source", "target"),
        update=RESTART,
        shown=LOW,
    ),
    _replicas("offset-syncs.topic.replication.factor", "offset-syncs"),
    _flow_setting(
        "offset.lag.max",
        LONG,
        "Records until the next offset sync; 0 writes a sync for each append.",
        update=RESTART,
        shown=LOW,
    ),
    _flow_setting(
        "use.incremental.alter.configs",
        ENUM,
        "Changes of topic settings (Kafka 3.5 to 3.9): `requested` changes single settings if the target can, "
        "`required` fails the flow if it cannot, `never` writes all settings of a topic.",
        choices=("requested", "required", "never"),
        update=RESTART,
        shown=Shown(Importance.LOW, until=(4, 0)),
    ),
    _flow(
        "add.source.alias.to.metrics",
        BOOL,
        "false",
        "Adds the tag `source` to metrics. Without this key metrics have the tag, as since Kafka 4.0.",
        update=RESTART,
        shown=Shown(Importance.LOW, until=(4, 0)),
    ),
    _flow(
        "consumer.poll.timeout.ms",
        LONG,
        "1000",
        "Milliseconds that a Java task waits in a poll.",
        effect=JVM,
        shown=LOW,
    ),
)

CHECKPOINT_KEYS = (
    _flow_setting(
        "groups",
        LIST,
        "Consumer groups with translated offsets: expressions that match whole names.",
        form=ValueForm.PATTERNS,
        update=AT_ONCE,
        shown=HIGH,
    ),
    _flow_setting(
        "groups.exclude",
        LIST,
        "Consumer groups to leave out; wins over `groups`.",
        form=ValueForm.PATTERNS,
        old_name="groups.blacklist",
        update=AT_ONCE,
        shown=HIGH,
    ),
    _flow(
        "groups.blacklist",
        LIST,
        None,
        "Old name of `groups.exclude`; the new name wins.",
        form=ValueForm.PATTERNS,
        update=AT_ONCE,
        shown=Shown(Importance.HIGH, until=(4, 0)),
    ),
    _flow(
        "group.filter.class",
        CLASS,
        _MIRROR + "DefaultGroupFilter",
        "Class that chooses groups.",
        accepted_classes=(_MIRROR + "DefaultGroupFilter",),
        custom=True,
        update=RESTART,
        shown=LOW,
    ),
    _flow("refresh.groups.enabled", BOOL, "true", "Looks for new groups.", update=AT_ONCE, shown=LOW),
    _within("refresh.groups.interval.seconds", "a new group is found, at most 30", 600),
    _flow(
        "emit.checkpoints.enabled",
        BOOL,
        "true",
        "Writes translated group offsets to the checkpoints topic.",
        update=AT_ONCE,
        shown=LOW,
    ),
    _within(
        "emit.checkpoints.interval.seconds",
        "a committed offset of a group gets a checkpoint, and is committed on the target with "
        "`sync.group.offsets.enabled`",
        60,
        zero=True,
    ),
    _flow(
        "sync.group.offsets.enabled",
        BOOL,
        "false",
        "Commits translated offsets on the target for groups that are idle there; needs `emit.checkpoints.enabled`.",
        update=AT_ONCE,
        shown=LOW,
    ),
    _flow(
        "sync.group.offsets.interval.seconds",
        LONG,
        "1",
        "Seconds until a group that is unchanged on the source is looked at again on the target (60 in "
        "MirrorMaker 2); a negative value turns it off.",
        maximum=_LONGEST_S,
        nonzero=True,
        update=AT_ONCE,
        shown=LOW,
    ),
    _replicas("checkpoints.topic.replication.factor", "checkpoints"),
    _flow(
        "emit.heartbeats.enabled",
        BOOL,
        "true",
        "Writes heartbeats to the target for each pair of clusters, also for disabled flows.",
        update=AT_ONCE,
        shown=LOW,
    ),
    _interval("emit.heartbeats.interval.seconds", "heartbeats", zero=True),
    _replicas("heartbeats.topic.replication.factor", "heartbeats"),
)
