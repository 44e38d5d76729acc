"""What known clients ask, in their order: kafka-ui, kafbat, AKHQ, Strimzi's operator, Cruise-like scripts with curl."""

from __future__ import annotations

from conformance.call import Call, connector_is, holds_offsets, writes
from conformance.mirrors import CHECKPOINT, HEARTBEAT, checkpoint, heartbeat, source
from conformance.resources.arrangements import PLAIN
from conformance.shapes import in_order, values_of
from conformance.stage import Resource

SEEN = "/connectors/seen"

KAFKA_UI = Resource(
    "client-kafka-ui",
    PLAIN,
    (
        Call("create", "POST /connectors", {"name": "seen", "config": heartbeat()}, headers={"Accept": "*/*"}),
        Call("names", "GET /connectors"),
        Call("status", f"GET {SEEN}/status", until=connector_is("RUNNING", 1)),
        Call("connector", f"GET {SEEN}"),
        Call("config", f"GET {SEEN}/config"),
        Call("tasks", f"GET {SEEN}/tasks"),
        Call("task status", f"GET {SEEN}/tasks/0/status"),
        Call("topics", f"GET {SEEN}/topics", until=writes("seen", "heartbeats")),
        Call("plugins", "GET /connector-plugins", shape=in_order),
        Call(
            "validate",
            f"PUT /connector-plugins/{HEARTBEAT}/config/validate",
            heartbeat(name="seen"),
            shape=values_of("name"),
        ),
        Call("update", f"PUT {SEEN}/config", heartbeat(name="seen", emit_heartbeats_interval_seconds="2")),
        Call("runs", f"GET {SEEN}/status", until=connector_is("RUNNING", 1)),
        Call("restart", f"POST {SEEN}/restart?includeTasks=false&onlyFailed=false"),
        Call("restart task", f"POST {SEEN}/tasks/0/restart"),
        Call("pause", f"PUT {SEEN}/pause"),
        Call("is paused", f"GET {SEEN}/status", until=connector_is("PAUSED", 1)),
        Call("resume", f"PUT {SEEN}/resume"),
        Call("info", "GET /"),
        Call(
            "list of the newer one",
            "GET /connectors?expand=status&expand=info",
            shape=lambda body: sorted(body["seen"]),
        ),
        Call("stop of the newer one", f"PUT {SEEN}/stop"),
        Call("is stopped", f"GET {SEEN}/status", until=connector_is("STOPPED", 0)),
        Call("reset offsets of the newer one", f"DELETE {SEEN}/offsets"),
        Call("delete", f"DELETE {SEEN}"),
    ),
)

STRIMZI = Resource(
    "client-strimzi",
    PLAIN,
    (
        Call("probe", "GET /health", headers={"Accept": "*/*"}),
        Call("plugins", "GET /connector-plugins?connectorsOnly=false", shape=lambda body: len(body) > 3),
        Call("config before it is there", "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/config"),
        Call("create", "PUT /connectors/left-%3Eright.MirrorHeartbeatConnector/config", heartbeat()),
        Call("config", "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/config"),
        Call(
            "status", "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/status", until=connector_is("RUNNING", 1)
        ),
        Call(
            "topics",
            "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/topics",
            until=writes("left->right.MirrorHeartbeatConnector", "heartbeats"),
        ),
        Call(
            "restart all",
            "POST /connectors/left-%3Eright.MirrorHeartbeatConnector/restart?includeTasks=true&onlyFailed=true",
        ),
        Call("restart task", "POST /connectors/left-%3Eright.MirrorHeartbeatConnector/tasks/0/restart"),
        Call("offsets", "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/offsets", until=holds_offsets(0)),
        Call("stop", "PUT /connectors/left-%3Eright.MirrorHeartbeatConnector/stop"),
        Call(
            "is stopped",
            "GET /connectors/left-%3Eright.MirrorHeartbeatConnector/status",
            until=connector_is("STOPPED", 0),
        ),
        Call("reset offsets", "DELETE /connectors/left-%3Eright.MirrorHeartbeatConnector/offsets"),
        Call("resume", "PUT /connectors/left-%3Eright.MirrorHeartbeatConnector/resume"),
        Call(
            "create stopped",
            "POST /connectors",
            {"name": "left->right.MirrorSourceConnector", "config": source(), "initial_state": "stopped"},
        ),
        Call("delete", "DELETE /connectors/left-%3Eright.MirrorHeartbeatConnector"),
        Call("delete source", "DELETE /connectors/left-%3Eright.MirrorSourceConnector"),
    ),
)

_CURL = {"Accept": "*/*", "User-Agent": "curl/8.5.0"}

SCRIPTS = Resource(
    "client-scripts",
    PLAIN,
    (
        Call("wait for the worker", "HEAD /", headers=_CURL),
        Call("deploy checkpoints", "PUT /connectors/mirror-checkpoint/config", checkpoint(), headers=_CURL),
        Call("deploy heartbeats", "PUT /connectors/mirror-heartbeat/config", heartbeat(), headers=_CURL),
        Call(
            "deploy source",
            "PUT /connectors/mirror-source/config",
            source(sync_topic_configs_enabled=False),
            headers=_CURL,
        ),
        Call("deploy checkpoints again", "PUT /connectors/mirror-checkpoint/config", checkpoint(), headers=_CURL),
        Call("checkpoints run", "GET /connectors/mirror-checkpoint/status", until=connector_is("RUNNING", 1)),
        Call("heartbeats run", "GET /connectors/mirror-heartbeat/status", until=connector_is("RUNNING", 1)),
        Call("source runs", "GET /connectors/mirror-source/status", until=connector_is("RUNNING", 2)),
        Call("all at once", "GET /connectors?expand=status", headers=_CURL),
        Call(
            "misspelt keys",
            "PUT /connectors/mirror-heartbeat/config",
            heartbeat() | {"emit.heartbeat.enabled": "true", "emit.heartbeat.interval.seconds": "1"},
        ),
        Call(
            "blank in front of a converter",
            "POST /connectors",
            {
                "name": "mm2-source",
                "config": source(
                    name="mm2-source",
                    source_cluster_alias="south",
                    clusters="a, b",
                    key_converter=" org.apache.kafka.connect.converters.ByteArrayConverter",
                    topics_blacklist=".*[\\-\\.]internal, .*\\.replica, __consumer_offsets",
                    groups_blacklist="console-consumer-.*, connect-.*, __.*",
                    producer_enable_idempotence="true",
                )
                | {"producer.override.bootstrap.servers": "<target>", "offset-syncs.topic.location": "target"},
            },
        ),
        Call("it runs", "GET /connectors/mm2-source/status", until=connector_is("RUNNING", 2)),
        Call("its config", "GET /connectors/mm2-source/config"),
        Call("AKHQ's form", f"GET /connector-plugins/{CHECKPOINT}/config", shape=lambda body: len(body) > 10),
        Call(
            "AKHQ's validation",
            "PUT /connector-plugins/MirrorCheckpointConnector/config/validate",
            {"connector.class": CHECKPOINT},
            shape=values_of(),
        ),
        *(
            Call(f"delete {name}", f"DELETE /connectors/{name}", headers=_CURL)
            for name in ("mirror-checkpoint", "mirror-heartbeat", "mirror-source", "mm2-source")
        ),
    ),
)
