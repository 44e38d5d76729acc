"""Every field of a `KafkaMirrorMaker2`, in both versions: its type, its rules, and its effect here.

Taken from Strimzi's schema (class KafkaMirrorMaker2Spec and its parts, 0.49 for v1beta2 and 1.2 for v1). A test holds
this table against that schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Version = Literal["v1beta2", "v1"]
FieldType = Literal["string", "integer", "boolean", "map", "list", "any"]

BOTH: tuple[Version, ...] = ("v1beta2", "v1")
OLD: tuple[Version, ...] = ("v1beta2",)
NEW: tuple[Version, ...] = ("v1",)
GROUP = "kafka.strimzi.io"
ONLY_OLD = ("oauth", "jaeger")
"""Choices that v1 has dropped."""


@dataclass(frozen=True, slots=True)
class Field:
    """The rules of a field. `named` is the reason why the field is ignored here; None for a field that counts. A map
    that is `free` may hold any key."""

    type: FieldType
    versions: tuple[Version, ...] = BOTH
    required: tuple[Version, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    pattern: str | None = None
    free: bool = False
    named: str | None = None


_KUBERNETES = "describes pods; without the operator, use values of the chart"
_PROBE = "the Helm chart uses it; elsewhere, let your supervisor ask /health"
_MEMORY = "set --conf spark.executor.memory"
_LATER = "twinlog lacks this feature"
_JAVA = "configures a Java process"

_ALIAS = r"^[a-zA-Z0-9\._\-]{1,100}$"
_SIZE = r"^[0-9]+[mMgG]?$"


def _secret(*keys: str) -> dict[str, Field]:
    return {"secretName": Field("string", required=BOTH)} | {key: Field("string", required=BOTH) for key in keys}


def _certificates(name: str, versions: tuple[Version, ...] = BOTH) -> dict[str, Field]:
    return {
        name: Field("list", versions),
        f"{name}[]": Field("map", versions),
        f"{name}[].secretName": Field("string", versions, required=versions),
        f"{name}[].certificate": Field("string", versions),
        f"{name}[].pattern": Field("string", versions),
    }


def _below(prefix: str, fields: Mapping[str, Field]) -> dict[str, Field]:
    return {f"{prefix}.{name}": field for name, field in fields.items()}


def _only(fields: Mapping[str, Field], versions: tuple[Version, ...]) -> dict[str, Field]:
    """The fields as they are in those versions alone."""
    kept = {}
    for name, one in fields.items():
        both = tuple(version for version in one.versions if version in versions)
        if both:
            required = tuple(version for version in one.required if version in both)
            kept[name] = Field(one.type, both, required, one.choices, one.minimum, one.pattern, one.free, one.named)
    return kept


def _old_secret(name: str) -> dict[str, Field]:
    return {name: Field("map", OLD), **_only(_below(name, _secret("key")), OLD)}


_RETRIES = "twinlog asks a token server again for sasl.login.retry.backoff.max.ms"
_AUTHENTICATION: dict[str, Field] = {
    "type": Field(
        "string", required=BOTH, choices=("tls", "scram-sha-256", "scram-sha-512", "plain", "oauth", "custom")
    ),
    "certificateAndKey": Field("map"),
    **_below("certificateAndKey", _secret("certificate", "key")),
    "username": Field("string"),
    "passwordSecret": Field("map"),
    **_below("passwordSecret", _secret("password")),
    "sasl": Field("boolean"),
    "config": Field("map", free=True),
    **_old_secret("accessToken"),
    **_old_secret("clientAssertion"),
    **_old_secret("clientSecret"),
    **_old_secret("refreshToken"),
    "accessTokenIsJwt": Field("boolean", OLD, named="twinlog accepts both kinds of tokens"),
    "accessTokenLocation": Field("string", OLD),
    "audience": Field("string", OLD),
    "clientAssertionLocation": Field("string", OLD),
    "clientAssertionType": Field("string", OLD),
    "clientId": Field("string", OLD),
    "connectTimeoutSeconds": Field("integer", OLD),
    "disableTlsHostnameVerification": Field("boolean", OLD),
    "enableMetrics": Field("boolean", OLD, named=_LATER),
    "grantType": Field("string", OLD),
    "httpRetries": Field("integer", OLD, named=_RETRIES),
    "httpRetryPauseMs": Field("integer", OLD, named=_RETRIES),
    "includeAcceptHeader": Field("boolean", OLD, named="twinlog always sends the header"),
    "maxTokenExpirySeconds": Field("integer", OLD),
    "readTimeoutSeconds": Field("integer", OLD),
    "saslExtensions": Field("map", OLD, free=True),
    "scope": Field("string", OLD),
    "tokenEndpointUri": Field("string", OLD),
    **_certificates("tlsTrustedCertificates", OLD),
}

_CLUSTER: dict[str, Field] = {
    "alias": Field("string", required=BOTH, pattern=_ALIAS),
    "bootstrapServers": Field("string", required=BOTH),
    "tls": Field("map"),
    **_below("tls", _certificates("trustedCertificates")),
    "authentication": Field("map"),
    **_below("authentication", _AUTHENTICATION),
    "config": Field("map", free=True),
}
_TARGET = _CLUSTER | {
    name: Field("string", required=BOTH)
    for name in ("groupId", "configStorageTopic", "statusStorageTopic", "offsetStorageTopic")
}

_CONNECTOR: dict[str, Field] = {
    "tasksMax": Field("integer", minimum=1),
    "pause": Field("boolean", OLD),
    "version": Field("string", named="each connector has a single version"),
    "config": Field("map", free=True),
    "state": Field("string", choices=("paused", "stopped", "running")),
    "autoRestart": Field("map"),
    "autoRestart.enabled": Field("boolean"),
    "autoRestart.maxRestarts": Field("integer"),
    "listOffsets": Field("map"),
    "listOffsets.toConfigMap": Field("map", required=BOTH),
    "listOffsets.toConfigMap.name": Field("string"),
    "alterOffsets": Field("map"),
    "alterOffsets.fromConfigMap": Field("map", required=BOTH),
    "alterOffsets.fromConfigMap.name": Field("string"),
}

_MIRROR: dict[str, Field] = {
    "sourceCluster": Field("string", OLD),
    "targetCluster": Field("string", OLD),
    "source": Field("map", required=NEW),
    **_below("source", _CLUSTER),
    "sourceConnector": Field("map"),
    **_below("sourceConnector", _CONNECTOR),
    "checkpointConnector": Field("map"),
    **_below("checkpointConnector", _CONNECTOR),
    "heartbeatConnector": Field("map", OLD),
    **_only(_below("heartbeatConnector", _CONNECTOR), OLD),
    "topicsPattern": Field("string"),
    "topicsExcludePattern": Field("string"),
    "topicsBlacklistPattern": Field("string", OLD),
    "groupsPattern": Field("string"),
    "groupsExcludePattern": Field("string"),
    "groupsBlacklistPattern": Field("string", OLD),
}

_PROBE_FIELDS = {
    "initialDelaySeconds": Field("integer", minimum=0),
    "timeoutSeconds": Field("integer", minimum=1),
    "periodSeconds": Field("integer", minimum=1),
    "successThreshold": Field("integer", minimum=1),
    "failureThreshold": Field("integer", minimum=1),
}
_FROM_MAP = {
    "valueFrom": Field("map"),
    "valueFrom.configMapKeyRef": Field("map"),
    "valueFrom.configMapKeyRef.name": Field("string"),
    "valueFrom.configMapKeyRef.key": Field("string"),
    "valueFrom.configMapKeyRef.optional": Field("boolean"),
}

_SPEC: dict[str, Field] = {
    "version": Field("string", named="the version of Kafka in Strimzi's image"),
    "replicas": Field("integer", required=NEW, minimum=0),
    "image": Field("string", named=_KUBERNETES),
    "connectCluster": Field("string", OLD),
    "clusters": Field("list", OLD),
    "clusters[]": Field("map", OLD),
    **_only(_below("clusters[]", _CLUSTER), OLD),
    "target": Field("map", required=NEW),
    **_below("target", _TARGET),
    "mirrors": Field("list", required=BOTH),
    "mirrors[]": Field("map"),
    **_below("mirrors[]", _MIRROR),
    "resources": Field("map", free=True, named=_MEMORY),
    "livenessProbe": Field("map", named=_PROBE),
    **_below("livenessProbe", _PROBE_FIELDS),
    "readinessProbe": Field("map", named=_PROBE),
    **_below("readinessProbe", _PROBE_FIELDS),
    "jvmOptions": Field("map"),
    "jvmOptions.-Xmx": Field("string", pattern=_SIZE),
    "jvmOptions.-Xms": Field("string", pattern=_SIZE, named="Spark's JVM begins with a small heap"),
    "jvmOptions.-XX": Field("map", free=True, named=_JAVA),
    "jvmOptions.gcLoggingEnabled": Field("boolean", named=_JAVA),
    "jvmOptions.javaSystemProperties": Field("list", named=_JAVA),
    "jvmOptions.javaSystemProperties[]": Field("map"),
    "jvmOptions.javaSystemProperties[].name": Field("string"),
    "jvmOptions.javaSystemProperties[].value": Field("string"),
    "jmxOptions": Field("map", named="metrics are at /metrics in place of JMX"),
    "jmxOptions.authentication": Field("map"),
    "jmxOptions.authentication.type": Field("string", required=BOTH, choices=("password",)),
    "logging": Field("map"),
    "logging.type": Field("string", required=BOTH, choices=("inline", "external")),
    "logging.loggers": Field("map", free=True),
    **_below("logging", _FROM_MAP),
    "clientRackInitImage": Field("string", named=_KUBERNETES),
    "rack": Field("map"),
    "rack.type": Field("string", NEW, choices=("topology-label", "environment-variable")),
    "rack.envVarName": Field("string", NEW),
    "rack.topologyKey": Field(
        "string", required=OLD, named="outside of Strimzi the labels of nodes are unknown; set consumer.client.rack"
    ),
    "metricsConfig": Field(
        "map",
        named="/metrics always has all metrics, by the rules of Strimzi's examples; drop series in the scraper "
        "(metric_relabel_configs)",
    ),
    "metricsConfig.type": Field("string", required=BOTH, choices=("jmxPrometheusExporter", "strimziMetricsReporter")),
    **_below("metricsConfig", _FROM_MAP),
    "metricsConfig.values": Field("map"),
    "metricsConfig.values.allowList": Field("list"),
    "metricsConfig.values.allowList[]": Field("string"),
    "tracing": Field("map", named=_LATER),
    "tracing.type": Field("string", required=BOTH, choices=("opentelemetry", "jaeger")),
    "template": Field("map", free=True, named=_KUBERNETES),
    "externalConfiguration": Field("map", OLD, free=True, named=_KUBERNETES),
}

FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "apiVersion": Field("string", required=BOTH),
        "kind": Field("string", required=BOTH),
        "metadata": Field("map", free=True),
        "status": Field("map", free=True),
        "spec": Field("map", required=BOTH),
        **_below("spec", _SPEC),
    }
)
"""Every field by its path; `[]` matches each value of a list."""

FORBIDDEN = (
    "ssl.",
    "sasl.",
    "security.",
    "listeners",
    "plugin.path",
    "rest.",
    "bootstrap.servers",
    "consumer.interceptor.classes",
    "producer.interceptor.classes",
)
"""Settings that are forbidden in the `config` of a cluster (class KafkaMirrorMaker2ClusterSpec); v1 has fields for four
more."""

STORAGE = {
    "groupId": ("group.id", "mirrormaker2-cluster"),
    "configStorageTopic": ("config.storage.topic", "mirrormaker2-cluster-configs"),
    "statusStorageTopic": ("status.storage.topic", "mirrormaker2-cluster-status"),
    "offsetStorageTopic": ("offset.storage.topic", "mirrormaker2-cluster-offsets"),
}
"""Fields of the target, each with the key that it sets and its default in v1beta2."""

ALLOWED = (
    "ssl.endpoint.identification.algorithm",
    "ssl.cipher.suites",
    "ssl.protocol",
    "ssl.enabled.protocols",
)
"""Exceptions: settings that the `config` of a cluster may contain."""

CONNECTOR_FORBIDDEN = ("name", "connector.class", "tasks.max", "connector.plugin.version")
"""Settings that are forbidden in the `config` of a connector: fields and the operator set them."""


def forbidden(key: str, version: Version, *, storage: bool) -> bool:
    """Whether `key` is forbidden in the `config` of a cluster; with `storage` it is the target's."""
    if key in ALLOWED:
        return False
    return key.startswith(FORBIDDEN) or (version == "v1" and storage and key in {key for key, _ in STORAGE.values()})
