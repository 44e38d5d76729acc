"""`/connectors/{name}/offsets`: read, alter and reset, in the shapes of the three mirror connectors."""

from __future__ import annotations

from conformance.call import Call, Json, connector_is, holds_offsets
from conformance.mirrors import ORDERS, READERS, checkpoint, heartbeat, source
from conformance.resources.arrangements import PLAIN
from conformance.shapes import offsets_in_order
from conformance.stage import Resource

FROM = "/connectors/off-source"
POINTS = "/connectors/off-points"
BEAT = "/connectors/off-beat"


def _one(partition: Json, offset: Json) -> dict[str, Json]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


def _place(**more: Json) -> dict[str, Json]:
    """A source partition; None leaves a key out, so that null is given as "null"."""
    return _changed({"cluster": "left", "topic": ORDERS, "partition": 0}, more)


def _group(**more: Json) -> dict[str, Json]:
    return _changed({"group": READERS, "topic": ORDERS, "partition": 0}, more)


def _clusters(**more: Json) -> dict[str, Json]:
    return _changed({"sourceClusterAlias": "left", "targetClusterAlias": "right"}, more)


def _changed(partition: dict[str, Json], more: dict[str, Json]) -> dict[str, Json]:
    changed = partition | more
    return {key: None if value == "null" else value for key, value in changed.items() if value is not None}


def _patch(name: str, connector: str, body: Json) -> Call:
    return Call(name, f"PATCH {connector}/offsets", body)


SOURCE_OFFSETS = Resource(
    "offsets-source",
    PLAIN,
    (
        Call("get unknown", "GET /connectors/nobody/offsets"),
        Call("patch unknown", "PATCH /connectors/nobody/offsets", _one(_place(), {"offset": 3})),
        Call("delete unknown", "DELETE /connectors/nobody/offsets"),
        Call(
            "create stopped", "POST /connectors", {"name": "off-source", "config": source(), "initial_state": "STOPPED"}
        ),
        Call("is stopped", f"GET {FROM}/status", until=connector_is("STOPPED", 0)),
        Call("none yet", f"GET {FROM}/offsets"),
        Call("reset what is not there", f"DELETE {FROM}/offsets"),
        Call("resume", f"PUT {FROM}/resume"),
        Call("runs", f"GET {FROM}/status", until=connector_is("RUNNING", 2)),
        Call("one partition has records", f"GET {FROM}/offsets", until=holds_offsets(9)),
        _patch("alter while it runs", FROM, _one(_place(), {"offset": 3})),
        Call("reset while it runs", f"DELETE {FROM}/offsets"),
        Call("pause", f"PUT {FROM}/pause"),
        Call("is paused", f"GET {FROM}/status", until=connector_is("PAUSED", 2)),
        _patch("alter while it is paused", FROM, _one(_place(), {"offset": 3})),
        Call("reset while it is paused", f"DELETE {FROM}/offsets"),
        Call("stop", f"PUT {FROM}/stop"),
        Call("is stopped again", f"GET {FROM}/status", until=connector_is("STOPPED", 0)),
        Call("can be read while stopped", f"GET {FROM}/offsets"),
        Call("head", f"HEAD {FROM}/offsets"),
        _patch("alter", FROM, _one(_place(), {"offset": 3})),
        Call("altered", f"GET {FROM}/offsets", shape=offsets_in_order),
        _patch("alter a second partition", FROM, _one(_place(partition=1), {"offset": 0})),
        Call("altered second", f"GET {FROM}/offsets", shape=offsets_in_order),
        _patch("alter a partition of no topic", FROM, _one(_place(topic="never"), {"offset": 7})),
        _patch("alter another cluster's", FROM, _one(_place(cluster="elsewhere"), {"offset": 7})),
        Call("altered others", f"GET {FROM}/offsets", shape=offsets_in_order),
        _patch("remove one", FROM, _one(_place(topic="never"), None)),
        _patch("remove one that is not there", FROM, _one(_place(topic="never"), None)),
        _patch(
            "alter two at once",
            FROM,
            {
                "offsets": [
                    {"partition": _place(), "offset": {"offset": 1}},
                    {"partition": _place(partition=1), "offset": None},
                ]
            },
        ),
        _patch(
            "alter one twice",
            FROM,
            {
                "offsets": [
                    {"partition": _place(), "offset": {"offset": 1}},
                    {"partition": _place(), "offset": {"offset": 2}},
                ]
            },
        ),
        Call("altered at once", f"GET {FROM}/offsets", shape=offsets_in_order),
        _patch("empty list", FROM, {"offsets": []}),
        _patch("no list", FROM, {}),
        _patch("null as list", FROM, {"offsets": None}),
        _patch("text as list", FROM, {"offsets": "all"}),
        _patch("unknown member", FROM, {"offsets": [], "force": True}),
        _patch("unknown member of one", FROM, {"offsets": [{"partition": _place(), "offset": None, "why": ""}]}),
        _patch("null as body", FROM, None),
        _patch("list as body", FROM, [{"partition": _place(), "offset": {"offset": 3}}]),
        _patch("half an object", FROM, b'{"offsets": ['),
        _patch("no partition", FROM, {"offsets": [{"offset": {"offset": 3}}]}),
        _patch("null as partition", FROM, _one(None, {"offset": 3})),
        _patch("empty partition", FROM, _one({}, {"offset": 3})),
        _patch("no offset", FROM, {"offsets": [{"partition": _place()}]}),
        _patch("no cluster", FROM, _one(_place(cluster=None), {"offset": 3})),
        _patch("no topic", FROM, _one(_place(topic=None), {"offset": 3})),
        _patch("no partition number", FROM, _one(_place(partition=None), {"offset": 3})),
        _patch("null as topic", FROM, _one(_place(topic="null"), {"offset": 3})),
        _patch("number as topic", FROM, _one(_place(topic=5), {"offset": 3})),
        _patch("number as cluster", FROM, _one(_place(cluster=5), {"offset": 3})),
        _patch("text as partition number", FROM, _one(_place(partition="0"), {"offset": 3})),
        _patch("fraction as partition number", FROM, _one(_place(partition=0.5), {"offset": 3})),
        _patch("negative partition number", FROM, _one(_place(partition=-1), {"offset": 3})),
        _patch("too large a partition number", FROM, _one(_place(partition=2**31), {"offset": 3})),
        _patch("further key in the partition", FROM, _one(_place() | {"rack": "a"}, {"offset": 3})),
        _patch("nested partition", FROM, _one(_place(topic={"name": "x"}), {"offset": 3})),
        _patch("text as offset", FROM, _one(_place(), {"offset": "3"})),
        _patch("fraction as offset", FROM, _one(_place(), {"offset": 3.5})),
        _patch("negative offset", FROM, _one(_place(), {"offset": -1})),
        _patch("null as offset number", FROM, _one(_place(), {"offset": None})),
        _patch("truth value as offset", FROM, _one(_place(), {"offset": True})),
        _patch("number in place of the offset", FROM, _one(_place(), 3)),
        _patch("empty offset", FROM, _one(_place(), {})),
        _patch("other key of the offset", FROM, _one(_place(), {"position": 3})),
        _patch("further key of the offset", FROM, _one(_place(), {"offset": 3, "epoch": 1})),
        _patch("large offset", FROM, _one(_place(partition=7), {"offset": 2**62})),
        _patch("offset beyond 64 bits", FROM, _one(_place(partition=7), {"offset": 2**64})),
        _patch("group's shape", FROM, _one(_group(), {"offset": 0})),
        _patch("heartbeat's shape", FROM, _one(_clusters(), {"offset": 0})),
        Call("what is left", f"GET {FROM}/offsets", shape=offsets_in_order),
        Call("put", f"PUT {FROM}/offsets", _one(_place(), {"offset": 3})),
        Call("reset", f"DELETE {FROM}/offsets"),
        Call("reset again", f"DELETE {FROM}/offsets"),
        Call("none is left", f"GET {FROM}/offsets"),
        _patch("go back", FROM, _one(_place(), {"offset": 4})),
        Call("resume after altering", f"PUT {FROM}/resume"),
        Call("copies again", f"GET {FROM}/offsets", until=holds_offsets(9)),
        Call("delete it", "DELETE /connectors/off-source"),
        Call("deleted has none", f"GET {FROM}/offsets"),
        Call(
            "create again", "POST /connectors", {"name": "off-source", "config": source(), "initial_state": "STOPPED"}
        ),
        Call("offsets outlive the connector", f"GET {FROM}/offsets", until=holds_offsets(9)),
        Call("reset at last", f"DELETE {FROM}/offsets"),
    ),
)

CHECKPOINT_OFFSETS = Resource(
    "offsets-checkpoint",
    PLAIN,
    (
        Call(
            "create stopped",
            "POST /connectors",
            {"name": "off-points", "config": checkpoint(), "initial_state": "STOPPED"},
        ),
        Call("is stopped", f"GET {POINTS}/status", until=connector_is("STOPPED", 0)),
        Call("none yet", f"GET {POINTS}/offsets"),
        _patch("alter", POINTS, _one(_group(), {"offset": 0})),
        Call("altered", f"GET {POINTS}/offsets"),
        _patch("remove", POINTS, _one(_group(), None)),
        Call("removed", f"GET {POINTS}/offsets"),
        _patch("offset of one", POINTS, _one(_group(), {"offset": 1})),
        _patch("text as offset", POINTS, _one(_group(), {"offset": "0"})),
        _patch("null as offset number", POINTS, _one(_group(), {"offset": None})),
        _patch("no group", POINTS, _one(_group(group=None), {"offset": 0})),
        _patch("no topic", POINTS, _one(_group(topic=None), {"offset": 0})),
        _patch("no partition number", POINTS, _one(_group(partition=None), {"offset": 0})),
        _patch("number as group", POINTS, _one(_group(group=1), {"offset": 0})),
        _patch("negative partition number", POINTS, _one(_group(partition=-1), {"offset": 0})),
        _patch("source partition's shape", POINTS, _one(_place(), {"offset": 0})),
        _patch("empty partition", POINTS, _one({}, {"offset": 0})),
        Call("reset", f"DELETE {POINTS}/offsets"),
    ),
)

HEARTBEAT_OFFSETS = Resource(
    "offsets-heartbeat",
    PLAIN,
    (
        Call("create", "POST /connectors", {"name": "off-beat", "config": heartbeat()}),
        Call("runs", f"GET {BEAT}/status", until=connector_is("RUNNING", 1)),
        Call("one after the first beat", f"GET {BEAT}/offsets", until=holds_offsets(0)),
        _patch("alter while it runs", BEAT, _one(_clusters(), {"offset": 0})),
        Call("stop", f"PUT {BEAT}/stop"),
        Call("is stopped", f"GET {BEAT}/status", until=connector_is("STOPPED", 0)),
        _patch("alter", BEAT, _one(_clusters(), {"offset": 0})),
        _patch("other aliases", BEAT, _one(_clusters(sourceClusterAlias="up"), {"offset": 0})),
        _patch("offset of one", BEAT, _one(_clusters(), {"offset": 1})),
        _patch("no source", BEAT, _one(_clusters(sourceClusterAlias=None), {"offset": 0})),
        _patch("no target", BEAT, _one(_clusters(targetClusterAlias=None), {"offset": 0})),
        _patch("number as source", BEAT, _one(_clusters(sourceClusterAlias=1), {"offset": 0})),
        _patch("null as target", BEAT, _one(_clusters(targetClusterAlias="null"), {"offset": 0})),
        Call("altered", f"GET {BEAT}/offsets", shape=offsets_in_order),
        _patch("remove", BEAT, _one(_clusters(), None)),
        Call("reset", f"DELETE {BEAT}/offsets"),
        Call("none is left", f"GET {BEAT}/offsets"),
    ),
)
