"""References to config providers: resolved where a connector runs and is validated, never in an answer that reads."""

from __future__ import annotations

from conformance.call import Call, connector_is, has_tasks
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import PLAIN
from conformance.shapes import values_of
from conformance.stage import Resource

VALIDATE = "PUT /connector-plugins/MirrorHeartbeatConnector/config/validate"
FILE = "${file:<dir>/mirror.properties:%s}"
REFERENCES = {
    "source.cluster.alias": FILE % "alias",
    "target.cluster.alias": "${env:CONFORMANCE_ALIAS}",
    "source.cluster.bootstrap.servers": FILE % "servers",
    "target.cluster.bootstrap.servers": "${folder:<dir>:target-servers}",
    "heartbeats.topic.replication.factor": FILE % "factor",
    "own.secret": "before " + FILE % "password" + " after",
}


def _validate(name: str, key: str, value: str) -> Call:
    return Call(name, VALIDATE, heartbeat(name="v") | {key: value}, shape=values_of(key))


PROVIDERS = Resource(
    "providers",
    PLAIN,
    (
        Call("create", "PUT /connectors/ref-a/config", heartbeat() | REFERENCES),
        Call("runs", "GET /connectors/ref-a/status", until=connector_is("RUNNING", 1)),
        Call("connector", "GET /connectors/ref-a", until=has_tasks(1)),
        Call("config", "GET /connectors/ref-a/config"),
        Call("tasks", "GET /connectors/ref-a/tasks"),
        Call("all configs of tasks", "GET /connectors/ref-a/tasks-config"),
        Call("expanded", "GET /connectors?expand=info"),
        Call("patch", "PATCH /connectors/ref-a/config", {"emit.heartbeats.interval.seconds": "${env:NEVER}"}),
        Call(
            "post a reference",
            "POST /connectors",
            {"name": "ref-b", "config": heartbeat() | REFERENCES, "initial_state": "STOPPED"},
        ),
        Call("validate", VALIDATE, heartbeat(name="v") | REFERENCES, shape=values_of(*REFERENCES)),
        _validate("file", "target.cluster.alias", FILE % "alias"),
        _validate("two in one", "target.cluster.alias", FILE % "alias" + "-" + FILE % "alias"),
        _validate("unknown key", "target.cluster.alias", FILE % "absent"),
        _validate("unknown file", "target.cluster.alias", "${file:<dir>/absent.properties:alias}"),
        _validate("unknown provider", "target.cluster.alias", "${vault:secret/data:alias}"),
        _validate("variable", "target.cluster.alias", "${env:CONFORMANCE_ALIAS}"),
        _validate("variable that is not allowed", "target.cluster.alias", "${env:OTHER_ALIAS}"),
        _validate("variable that is not set", "target.cluster.alias", "${env:CONFORMANCE_ABSENT}"),
        _validate("variable with a path", "target.cluster.alias", "${env:/etc:CONFORMANCE_ALIAS}"),
        _validate("file of a folder", "target.cluster.alias", "${folder:<dir>:target-servers}"),
        _validate("folder that is not allowed", "target.cluster.alias", "${folder:/etc:hostname}"),
        _validate("absent file of a folder", "target.cluster.alias", "${folder:<dir>:absent}"),
        _validate("password", "target.cluster.alias", f'Login required password="{FILE % "password"}";'),
        _validate("wrong type", "heartbeats.topic.replication.factor", FILE % "broken"),
        _validate("not closed", "target.cluster.alias", "${file:<dir>/mirror.properties:alias"),
        _validate("nothing in it", "target.cluster.alias", "${}"),
        _validate("no key", "target.cluster.alias", "${env:}"),
        _validate("name of the connector", "name", FILE % "alias"),
        Call("name in a reference", "POST /connectors", {"name": "ref-c", "config": heartbeat(name=FILE % "alias")}),
        Call(
            "class in a reference",
            "POST /connectors",
            {"name": "ref-d", "config": heartbeat() | {"connector.class": FILE % "alias"}},
        ),
        Call(
            "wrong type in a reference",
            "POST /connectors",
            {"name": "ref-e", "config": heartbeat() | {"tasks.max": FILE % "broken"}},
        ),
    ),
)
