"""`/connector-plugins`: what can be run and how it is configured."""

from __future__ import annotations

from conformance.call import Call
from conformance.mirrors import CHECKPOINT, HEARTBEAT, SOURCE
from conformance.resources.arrangements import PLAIN
from conformance.shapes import in_order, key_names, of_classes, plugin_keys
from conformance.stage import Resource

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
INSERT = "org.apache.kafka.connect.transforms.InsertField$Value"
TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"

PLUGINS = Resource(
    "plugins",
    PLAIN,
    (
        Call("list", "GET /connector-plugins", shape=in_order),
        Call("list in its order", "GET /connector-plugins", shape=of_classes((CHECKPOINT, HEARTBEAT, SOURCE))),
        Call("connectors only", "GET /connector-plugins?connectorsOnly=true", shape=in_order),
        Call(
            "all",
            "GET /connector-plugins?connectorsOnly=false",
            shape=of_classes((CHECKPOINT, HEARTBEAT, SOURCE, BYTES, STRING, JSON, SIMPLE)),
        ),
        Call("odd flag", "GET /connector-plugins?connectorsOnly=maybe", shape=of_classes((SOURCE, BYTES))),
        Call("with a slash", "GET /connector-plugins/", shape=in_order),
        Call("head", "HEAD /connector-plugins"),
        Call("post", "POST /connector-plugins", {}),
        Call("one", f"GET /connector-plugins/{SOURCE}"),
        Call("source's keys", f"GET /connector-plugins/{SOURCE}/config", shape=plugin_keys),
        Call("checkpoint's keys", f"GET /connector-plugins/{CHECKPOINT}/config", shape=plugin_keys),
        Call("heartbeat's keys", f"GET /connector-plugins/{HEARTBEAT}/config", shape=plugin_keys),
        Call("keys by simple name", "GET /connector-plugins/MirrorHeartbeatConnector/config", shape=key_names),
        Call("keys by short name", "GET /connector-plugins/MirrorHeartbeat/config", shape=key_names),
        Call("keys by name in lower case", "GET /connector-plugins/mirrorheartbeat/config", shape=key_names),
        Call("keys of bytes", f"GET /connector-plugins/{BYTES}/config", shape=plugin_keys),
        Call("keys of strings", f"GET /connector-plugins/{STRING}/config", shape=plugin_keys),
        Call("keys of JSON", f"GET /connector-plugins/{JSON}/config", shape=plugin_keys),
        Call("keys of JSON by simple name", "GET /connector-plugins/JsonConverter/config", shape=key_names),
        Call("keys of headers", f"GET /connector-plugins/{SIMPLE}/config", shape=plugin_keys),
        Call("keys of a transform", f"GET /connector-plugins/{INSERT}/config", shape=plugin_keys),
        Call("keys of a predicate", f"GET /connector-plugins/{TOMBSTONE}/config", shape=plugin_keys),
        Call("keys of unknown", "GET /connector-plugins/org.example.Nope/config"),
        Call("keys of unknown simple name", "GET /connector-plugins/Nope/config"),
        Call(
            "keys of a class that is no plugin",
            "GET /connector-plugins/org.apache.kafka.connect.mirror.DefaultTopicFilter/config",
        ),
        Call("newest version", "GET /connector-plugins/MirrorHeartbeat/config?version=latest", shape=key_names),
        Call("unknown version", "GET /connector-plugins/MirrorHeartbeat/config?version=0.1", shape=key_names),
        Call("no version", "GET /connector-plugins/MirrorHeartbeat/config?version=newish", shape=key_names),
        Call("head of keys", f"HEAD /connector-plugins/{HEARTBEAT}/config"),
        Call("put keys", f"PUT /connector-plugins/{HEARTBEAT}/config", {}),
        Call("options of keys", f"OPTIONS /connector-plugins/{HEARTBEAT}/config"),
    ),
)
