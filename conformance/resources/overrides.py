"""What connectors may change of their clients, by the worker's policy."""

from __future__ import annotations

from conformance.call import Call
from conformance.mirrors import heartbeat
from conformance.resources.arrangements import ALLOWLIST, EXACT, STRICT
from conformance.shapes import values_of
from conformance.stage import Resource

LOGIN = {
    "producer.override.security.protocol": "PLAINTEXT",
    "producer.override.sasl.mechanism": "PLAIN",
    "producer.override.sasl.jaas.config": 'org.example.Login required password="hidden-secret";',
}
_VALIDATE = "PUT /connector-plugins/MirrorHeartbeatConnector/config/validate"
_SHAPE = values_of(*LOGIN, "producer.override.acks", "admin.override.client.id")


def _calls() -> tuple[Call, ...]:
    return (
        Call("none", "POST /connectors", {"name": "over-none", "config": heartbeat()}),
        Call("login", "POST /connectors", {"name": "over-login", "config": heartbeat() | LOGIN}),
        Call(
            "acks", "POST /connectors", {"name": "over-acks", "config": heartbeat() | {"producer.override.acks": "1"}}
        ),
        Call(
            "consumer's",
            "POST /connectors",
            {"name": "over-c", "config": heartbeat() | {"consumer.override.client.id": "x"}},
        ),
        Call(
            "admin's", "POST /connectors", {"name": "over-d", "config": heartbeat() | {"admin.override.client.id": "x"}}
        ),
        Call("put acks", "PUT /connectors/over-none/config", heartbeat() | {"producer.override.acks": "1"}),
        Call("patch acks", "PATCH /connectors/over-none/config", {"producer.override.acks": "1"}),
        Call("validate login", _VALIDATE, heartbeat(name="v") | LOGIN, shape=_SHAPE),
        Call("validate acks", _VALIDATE, heartbeat(name="v") | {"producer.override.acks": "1"}, shape=_SHAPE),
        Call("validate both", _VALIDATE, heartbeat(name="v") | LOGIN | {"admin.override.client.id": "x"}, shape=_SHAPE),
    )


OVERRIDES_NONE = Resource("overrides-none", STRICT, _calls())
OVERRIDES_PRINCIPAL = Resource("overrides-principal", EXACT, _calls())
OVERRIDES_ALLOWLIST = Resource("overrides-allowlist", ALLOWLIST, _calls())
