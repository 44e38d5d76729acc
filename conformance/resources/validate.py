"""`/connector-plugins/{class}/config/validate`: every key with its value, its errors and what it may be."""

from __future__ import annotations

from conformance.call import Call, Json
from conformance.mirrors import CHECKPOINT, HEARTBEAT, SOURCE, checkpoint, heartbeat, source
from conformance.resources.arrangements import EXACT, PLAIN
from conformance.shapes import Shape, bare_message, errors_only, validated, values_of
from conformance.stage import Resource

NAMES = {"source": SOURCE, "checkpoint": CHECKPOINT, "heartbeat": HEARTBEAT}


def _check(name: str, config: Json, *, at: str = "MirrorHeartbeatConnector", shape: Shape = errors_only) -> Call:
    return Call(name, f"PUT /connector-plugins/{at}/config/validate", config, shape=shape)


def _source(name: str, config: Json, *keys: str) -> Call:
    return _check(name, config, at="MirrorSourceConnector", shape=values_of(*keys))


def _checkpoint(name: str, config: Json, *keys: str) -> Call:
    return _check(name, config, at="MirrorCheckpointConnector", shape=values_of(*keys))


VALIDATE = Resource(
    "validate",
    PLAIN,
    (
        _check("heartbeat whole", heartbeat(name="valid"), at=HEARTBEAT, shape=validated),
        _check("checkpoint whole", checkpoint(name="valid"), at=CHECKPOINT, shape=validated),
        _check("source whole", source(name="valid"), at=SOURCE, shape=validated),
        _check("by simple name", heartbeat(name="valid")),
        _check("by short name", heartbeat(name="valid"), at="MirrorHeartbeat"),
        _check("class by short name", heartbeat(name="valid") | {"connector.class": "MirrorHeartbeat"}),
        _check(
            "class by short name at the full one", heartbeat() | {"connector.class": "MirrorHeartbeat"}, at=HEARTBEAT
        ),
        _check("another class than at", source(name="valid")),
        _check("end of the class's name", heartbeat(name="valid"), at="Connector"),
        _check("unknown at", heartbeat(name="valid"), at="Nope"),
        _check("unknown class", {"connector.class": "org.example.Nope"}, at="Nope", shape=bare_message),
        _check("no class", {"name": "valid"}),
        _check("empty class", {"connector.class": ""}),
        _check("null as class", {"connector.class": None}),
        _check("class alone", {"connector.class": HEARTBEAT}),
        _check("source's class alone", {"connector.class": SOURCE}, at="MirrorSource"),
        _check("checkpoint's class alone", {"connector.class": CHECKPOINT}, at="MirrorCheckpoint"),
        _check(
            "class of a converter",
            {"connector.class": "org.apache.kafka.connect.json.JsonConverter"},
            at="JsonConverter",
            shape=bare_message,
        ),
        _check("empty object", {}),
        _check("null", None),
        _check("nothing", b""),
        _check("list", []),
        _check("half an object", b'{"name": '),
        _check("form of a post", {"name": "valid", "config": heartbeat()}),
        _check("nested value", heartbeat() | {"a": {"b": 1}}),
        _check("no name", heartbeat()),
        _check("empty name", heartbeat(name="")),
        _check("name with a control character", heartbeat(name="a\u0007b")),
        _check("name with a line break", heartbeat(name="a\nb")),
        _check("blank in front of a name", heartbeat(name=" valid"), shape=values_of("name")),
        _check("number as name", heartbeat(name=5), shape=values_of("name")),
        _check("null as value", heartbeat(name="valid") | {"tasks.max": None}, shape=values_of("tasks.max")),
        _check(
            "null as value of an unknown key", heartbeat(name="valid") | {"some.key": None}, shape=values_of("some.key")
        ),
        _check("unknown key", heartbeat(name="valid") | {"some.key": "x"}, shape=values_of("some.key")),
        _check("no tasks", heartbeat(name="valid", tasks_max="0")),
        _check("tasks in words", heartbeat(name="valid", tasks_max="two")),
        _check("tasks as a fraction", heartbeat(name="valid", tasks_max="1.5")),
        _check("tasks as a number", heartbeat(name="valid", tasks_max=3), shape=values_of("tasks.max")),
        _check("too many tasks", heartbeat(name="valid", tasks_max="2147483648")),
        _check("blanks around values", heartbeat(name="valid", tasks_max=" 2 "), shape=values_of("tasks.max")),
        _check(
            "truth value in capitals",
            heartbeat(name="valid", emit_heartbeats_enabled="TRUE"),
            shape=values_of("emit.heartbeats.enabled"),
        ),
        _check("truth value in words", heartbeat(name="valid", emit_heartbeats_enabled="yes")),
        _check("seconds in words", heartbeat(name="valid", emit_heartbeats_interval_seconds="1s")),
        _check("replication of none", heartbeat(name="valid") | {"heartbeats.topic.replication.factor": "none"}),
        _check("too large a short", heartbeat(name="valid") | {"heartbeats.topic.replication.factor": "70000"}),
        _check("unknown converter", heartbeat(name="valid", key_converter="org.example.Nope")),
        _check("converter that is none", heartbeat(name="valid", key_converter=HEARTBEAT)),
        _check(
            "converter behind a blank",
            heartbeat(name="valid", key_converter=" org.apache.kafka.connect.converters.ByteArrayConverter"),
        ),
        _check("empty converter", heartbeat(name="valid", key_converter="")),
        _check(
            "converter with a wrong key",
            heartbeat(name="valid", key_converter="org.apache.kafka.connect.json.JsonConverter")
            | {"key.converter.schemas.enable": "perhaps"},
        ),
        _check(
            "converter with its keys",
            heartbeat(name="valid", key_converter="org.apache.kafka.connect.json.JsonConverter"),
            shape=values_of("key.converter", "key.converter.schemas.enable", "schemas.enable"),
        ),
        _check(
            "header converter",
            heartbeat(name="valid", header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter"),
            shape=values_of("header.converter"),
        ),
        _check("unknown header converter", heartbeat(name="valid", header_converter="org.example.Nope")),
        _check("transform without a type", heartbeat(name="valid", transforms="cut")),
        _check(
            "transform of an unknown type",
            heartbeat(name="valid", transforms="cut") | {"transforms.cut.type": "org.example.Nope"},
        ),
        _check(
            "transform",
            heartbeat(name="valid", transforms="cut")
            | {
                "transforms.cut.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
                "transforms.cut.exclude": "a",
            },
            shape=values_of("transforms", "transforms.cut.type", "transforms.cut.exclude"),
        ),
        _check(
            "transform twice",
            heartbeat(name="valid", transforms="cut,cut")
            | {"transforms.cut.type": "org.apache.kafka.connect.transforms.ReplaceField$Value"},
        ),
        _check("predicate without a type", heartbeat(name="valid", predicates="late")),
        _check("unknown action on reload", heartbeat(name="valid", config_action_reload="explode")),
        _check("action on reload in capitals", heartbeat(name="valid", config_action_reload="NONE")),
        _check("unknown tolerance", heartbeat(name="valid", errors_tolerance="some")),
        _check(
            "retry without end",
            heartbeat(name="valid", errors_retry_timeout="-1"),
            shape=values_of("errors.retry.timeout"),
        ),
        _check("retry in words", heartbeat(name="valid", errors_retry_timeout="long")),
        _check("unknown boundary", heartbeat(name="valid", transaction_boundary="never")),
        _check("boundary of the connector", heartbeat(name="valid", transaction_boundary="connector")),
        _check(
            "boundary without an interval",
            heartbeat(name="valid", transaction_boundary="interval"),
            shape=values_of("transaction.boundary.interval.ms"),
        ),
        _check("boundary of no length", heartbeat(name="valid") | {"transaction.boundary.interval.ms": "0"}),
        _check(
            "exactly once requested",
            heartbeat(name="valid") | {"exactly.once.support": "requested"},
            shape=values_of("exactly.once.support"),
        ),
        _check(
            "exactly once required",
            heartbeat(name="valid") | {"exactly.once.support": "required"},
            shape=values_of("exactly.once.support"),
        ),
        _check("exactly once perhaps", heartbeat(name="valid") | {"exactly.once.support": "perhaps"}),
        _check("empty offsets topic", heartbeat(name="valid") | {"offsets.storage.topic": ""}),
        _check("topic creation without a default", heartbeat(name="valid") | {"topic.creation.groups": "big"}),
        _check(
            "topic creation",
            heartbeat(name="valid")
            | {
                "topic.creation.groups": "big",
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.partitions": "1",
                "topic.creation.big.include": "left.*",
                "topic.creation.big.partitions": "0",
            },
            shape=values_of("topic.creation.groups", "topic.creation.default.partitions", "topic.creation.big.include"),
        ),
        _check(
            "overrides",
            heartbeat(name="valid")
            | {
                "producer.override.acks": "1",
                "consumer.override.max.poll.records": "5",
                "admin.override.client.id": "x",
            },
            shape=values_of("producer.override.acks", "consumer.override.max.poll.records", "admin.override.client.id"),
        ),
        _check(
            "override of a wrong type",
            heartbeat(name="valid") | {"producer.override.linger.ms": "soon"},
            shape=values_of("producer.override.linger.ms"),
        ),
        _check(
            "override of an unknown key",
            heartbeat(name="valid") | {"producer.override.nope": "1"},
            shape=values_of("producer.override.nope"),
        ),
        _check("no source alias", heartbeat(name="valid", source_cluster_alias=None)),
        _check(
            "no target alias",
            heartbeat(name="valid", target_cluster_alias=None),
            shape=values_of("target.cluster.alias"),
        ),
        _check("unknown policy", heartbeat(name="valid") | {"replication.policy.class": "org.example.Nope"}),
        _check(
            "policy that is none",
            heartbeat(name="valid") | {"replication.policy.class": "java.lang.String"},
            shape=values_of("replication.policy.class"),
        ),
        _check(
            "plugin version",
            heartbeat(name="valid") | {"connector.plugin.version": "0.1"},
            shape=values_of("connector.plugin.version"),
        ),
        _source("no topics", source(name="valid", topics=""), "topics"),
        _source("default topics", source(name="valid", topics=None), "topics", "topics.exclude"),
        _source("topics twice", source(name="valid", topics="orders,orders"), "topics"),
        _source("topics by a broken pattern", source(name="valid", topics="("), "topics"),
        _source(
            "blacklists",
            source(name="valid") | {"topics.blacklist": "a.*", "config.properties.blacklist": "b"},
            "topics.exclude",
            "topics.blacklist",
            "config.properties.exclude",
        ),
        _source(
            "unknown location",
            source(name="valid") | {"offset-syncs.topic.location": "between"},
            "offset-syncs.topic.location",
        ),
        _source(
            "location at the target",
            source(name="valid") | {"offset-syncs.topic.location": "target"},
            "offset-syncs.topic.location",
        ),
        _source("no syncs but their keys", source(name="valid") | {"emit.offset-syncs.enabled": "false"}),
        _source(
            "no syncs",
            {key: value for key, value in source(name="valid").items() if "syncs" not in key}
            | {"emit.offset-syncs.enabled": "false"},
        ),
        _source("negative lag", source(name="valid") | {"offset.lag.max": "-1"}),
        _source("no partitions", source(name="valid") | {"replication.factor": "0"}, "replication.factor"),
        _source("unknown filter", source(name="valid") | {"topic.filter.class": "org.example.Nope"}),
        _source(
            "exactly once without the worker",
            source(name="valid") | {"exactly.once.support": "required"},
            "exactly.once.support",
        ),
        _source(
            "exactly once and committed",
            source(name="valid")
            | {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"},
        ),
        _source(
            "whether configs are altered in parts",
            source(name="valid") | {"use.incremental.alter.configs": "never"},
            "use.incremental.alter.configs",
        ),
        _source("names of metrics", source(name="valid") | {"metric.names.formats": "old"}, "metric.names.formats"),
        _checkpoint("no groups", checkpoint(name="valid", groups=""), "groups"),
        _checkpoint("default groups", checkpoint(name="valid", groups=None), "groups", "groups.exclude"),
        _checkpoint(
            "blacklist", checkpoint(name="valid") | {"groups.blacklist": "a.*"}, "groups.exclude", "groups.blacklist"
        ),
        _checkpoint("no checkpoints", checkpoint(name="valid", emit_checkpoints_enabled="false")),
        _checkpoint(
            "no checkpoints where disabled", checkpoint(name="valid", emit_checkpoints_enabled="false", enabled="false")
        ),
        _checkpoint("no syncs for checkpoints", checkpoint(name="valid") | {"emit.offset-syncs.enabled": "false"}),
        _checkpoint("groups by a broken pattern", checkpoint(name="valid", groups="("), "groups"),
        _checkpoint(
            "several errors",
            checkpoint(name="", tasks_max="0", source_cluster_alias=None, emit_checkpoints_enabled="perhaps"),
        ),
        Call("get", f"GET /connector-plugins/{HEARTBEAT}/config/validate"),
        Call("post", f"POST /connector-plugins/{HEARTBEAT}/config/validate", heartbeat(name="valid")),
        Call("options", f"OPTIONS /connector-plugins/{HEARTBEAT}/config/validate"),
    ),
)

VALIDATE_EXACT = Resource(
    "validate-exact",
    EXACT,
    (
        _source(
            "required and committed",
            source(name="valid")
            | {"exactly.once.support": "required", "consumer.override.isolation.level": "read_committed"},
            "exactly.once.support",
        ),
        _source(
            "required and uncommitted",
            source(name="valid") | {"exactly.once.support": "required"},
            "exactly.once.support",
        ),
        _source(
            "required and its own consumer",
            source(name="valid")
            | {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"},
            "exactly.once.support",
        ),
        _check(
            "heartbeat required",
            heartbeat(name="valid") | {"exactly.once.support": "required"},
            shape=values_of("exactly.once.support"),
        ),
        _checkpoint(
            "checkpoint required",
            checkpoint(name="valid") | {"exactly.once.support": "required"},
            "exactly.once.support",
        ),
        _check(
            "topic creation where it is off",
            heartbeat(name="valid")
            | {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"},
            shape=values_of("topic.creation.default.partitions"),
        ),
        _check(
            "offsets topic",
            heartbeat(name="valid") | {"offsets.storage.topic": "own-offsets"},
            shape=values_of("offsets.storage.topic"),
        ),
    ),
)
