"""The workers that the calls are played on. Each costs a start, so resources share them."""

from __future__ import annotations

import base64

from conformance.meant import NEWER
from conformance.stage import STORE_PASSWORD, Arrangement

PROVIDERS = "org.apache.kafka.common.config.provider"
SECRET = "secret-of-the-file"

PLAIN = Arrangement(
    "plain",
    {
        "config.providers": "file,env,folder",
        "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
        "config.providers.env.class": f"{PROVIDERS}.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "CONFORMANCE_.*",
        "config.providers.folder.class": f"{PROVIDERS}.DirectoryConfigProvider",
        "config.providers.folder.param.allowed.paths": "<dir>",
    },
    files={
        "mirror.properties": f"servers=<source>\nalias: left\npassword={SECRET}\nfactor=1\nbroken=many\n",
        "target-servers": "<target>",
    },
    env={"CONFORMANCE_ALIAS": "right", "OTHER_ALIAS": "hidden"},
)
"""One worker with Connect's defaults and the three providers of configs that Kafka brings."""

ODD_NAMES = Arrangement("odd-names")
"""For connectors that cannot be deleted any more."""

LOGIN = """KafkaConnect {
    org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
    file="<dir>/users.txt";
};
"""
EXTENSION = {
    "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
}


def basic(user: str, password: str) -> dict[str, str]:
    """The header of HTTP basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


AUTH = Arrangement(
    "auth",
    {**EXTENSION, "admin.listeners": "http://<here-admin>"},
    files={
        "jaas.conf": LOGIN,
        "users.txt": (
            "# users of the API\nhealth: health-secret\nkafkaui=ui-secret\ninit init-secret\n"
            "colon=with:colon\nspaced = inner blank \numlaut=gr\\u00fcn\nempty=\n"
        ),
    },
    login="jaas.conf",
    headers=basic("health", "health-secret"),
)
"""Every form that a line of the users' file may have, and a listener for admins beside it."""

AUTH_OPEN = Arrangement(
    "auth-open", EXTENSION, files={"jaas.conf": LOGIN, "users.txt": "# nobody yet\n"}, login="jaas.conf"
)
"""A users' file without users."""

LISTENERS = Arrangement(
    "listeners",
    {
        "listeners": "HTTP://<here>,https://<here-https>",
        "admin.listeners": "http://<here-admin>",
        "rest.advertised.listener": "http",
        "listeners.https.ssl.keystore.location": "<dir>/worker.p12",
        "listeners.https.ssl.keystore.password": STORE_PASSWORD,
        "listeners.https.ssl.key.password": STORE_PASSWORD,
        "listeners.https.ssl.keystore.type": "PKCS12",
        "access.control.allow.origin": "https://ui.example.org",
        "access.control.allow.methods": "GET,PUT,OPTIONS",
        "response.http.headers.config": (
            'set X-Frame-Options: DENY, "add X-Cache: no-cache, no-store", set X-Content-Type-Options: nosniff'
        ),
    },
)
"""HTTP and HTTPS, a listener for admins, access control and further headers."""

STRICT = Arrangement(
    "strict",
    {
        "topic.tracking.enable": "false",
        "connector.client.config.override.policy": "None",
        "admin.listeners": "",
        "access.control.allow.origin": "*",
    },
)
"""What can be switched off is."""

EXACT = Arrangement(
    "exact",
    {
        "exactly.once.source.support": "enabled",
        "topic.tracking.allow.reset": "false",
        "connector.client.config.override.policy": "Principal",
        "topic.creation.enable": "false",
    },
)
"""Exactly once, and connectors may log in as somebody else but change no other client setting."""

ALLOWLIST = Arrangement(
    "allowlist",
    {
        "connector.client.config.override.policy": "Allowlist",
        "connector.client.config.override.allowlist": "acks,client.id",
    },
    releases=(NEWER,),
)

GROUP = Arrangement("group", {"session.timeout.ms": "6000", "heartbeat.interval.ms": "2000"}, workers=2)
"""The first leads: it was there alone."""

STANDALONE = Arrangement(
    "standalone",
    files={
        "beat.properties": (
            "name=from-properties\nconnector.class=MirrorHeartbeat\nsource.cluster.alias=left\n"
            "target.cluster.alias=right\nsource.cluster.bootstrap.servers=<source>\n"
            "target.cluster.bootstrap.servers=<target>\nheartbeats.topic.replication.factor=1\n"
        ),
        "beat.json": (
            '{"name": "from-json", "initial_state": "PAUSED", "config": {"connector.class": "MirrorHeartbeatConnector",'
            ' "source.cluster.alias": "left", "target.cluster.alias": "right",'
            ' "source.cluster.bootstrap.servers": "<source>", "target.cluster.bootstrap.servers": "<target>",'
            ' "heartbeats.topic.replication.factor": "1"}}'
        ),
    },
    connectors=("beat.properties", "beat.json"),
    mode="standalone",
)
