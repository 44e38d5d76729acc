"""Releases of Strimzi's cluster operator: the files, variables and connectors that each makes of a resource.

Read from the public sources of Strimzi at the tags 0.51.0 (54081abf), 1.0.0 (4836c7dd) and 1.2.0 (6c7b43c4): classes
KafkaMirrorMaker2Cluster, KafkaConnectCluster, KafkaConnectConfigurationBuilder, KafkaMirrorMaker2Connectors,
JvmOptionUtils and LoggingUtils, and docker-images/kafka-based/kafka/scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.containers.strimzi.secrets import NAMESPACE

PACKAGE = "org.apache.kafka.connect.mirror"
REST_PORT = 8083
KINDS = ("MirrorSourceConnector", "MirrorCheckpointConnector")
CLIENTS = ("", "producer.", "consumer.", "admin.")
PROVIDERS = "org.apache.kafka.common.config.provider"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the operator."""

    name: str
    tag: str
    script: str
    """The command of the pod's container."""
    mounts: bool
    """Whether certificates and passwords are mounted; otherwise the worker asks Kubernetes for them."""
    creates_with_post: bool
    reporter: str
    """The class of Strimzi's Metrics Reporter."""
    rack_variable: bool
    """Whether the rack may come from a variable."""


RELEASES = {
    one.name: one
    for one in (
        Release(
            "0.51",
            "0.51.0",
            "kafka_mirror_maker_2_run.sh",
            mounts=True,
            creates_with_post=False,
            reporter="io.strimzi.kafka.metrics.KafkaPrometheusMetricsReporter",
            rack_variable=False,
        ),
        Release(
            "1.0",
            "1.0.0",
            "kafka_mirror_maker_2_run.sh",
            mounts=True,
            creates_with_post=False,
            reporter="io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter",
            rack_variable=True,
        ),
        Release(
            "1.2",
            "1.2.0",
            "kafka_connect_run.sh",
            mounts=False,
            creates_with_post=True,
            reporter="io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter",
            rack_variable=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Login:
    """A password: `kind` is plain, scram-sha-256 or scram-sha-512; it is in the key `password` of `secret`."""

    kind: Literal["plain", "scram-sha-256", "scram-sha-512"]
    user: str
    secret: str

    @property
    def mechanism(self) -> str:
        return self.kind.upper()

    @property
    def module(self) -> str:
        package = "org.apache.kafka.common.security"
        return f"{package}.plain.PlainLoginModule" if self.kind == "plain" else f"{package}.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client's certificate: the keys user.crt and user.key of `secret`."""

    secret: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of the resource; `trusted` is the Secret with the authorities in *.crt, None without TLS."""

    alias: str
    bootstrap: str
    trusted: str | None = None
    login: Login | Certificate | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        encrypted = self.trusted is not None
        if isinstance(self.login, Login):
            return "SASL_SSL" if encrypted else "SASL_PLAINTEXT"
        return "SSL" if encrypted else "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Resource:
    """A KafkaMirrorMaker2 with a single mirror. `metrics` is jmx or reporter; `rack` is topology, or a variable."""

    name: str
    target: Cluster
    source: Cluster
    group: str
    connectors: Mapping[str, Mapping[str, str]]
    """The settings of each connector by its class."""
    topics: str = ".*"
    groups: str = ".*"
    tasks_max: int | None = None
    metrics: Literal["jmx", "reporter"] | None = None
    rack: str | None = None
    traced: bool = False
    loggers: Mapping[str, str] = field(default_factory=dict)
    jvm: Mapping[str, str] = field(default_factory=dict)
    """Variables that come from jvmOptions, resources and template.connectContainer.env."""

    @property
    def component(self) -> str:
        return f"{self.name}-mirrormaker2"

    @property
    def trusted_secret(self) -> str:
        """The Secret in which the operator collects the authorities."""
        return f"{self.name}-connect-tls-trusted-certs"


def worker_properties(release: Release, resource: Resource) -> str:
    """The file kafka-connect.properties of the pod's ConfigMap."""
    lines = dict(_worker_lines(release, resource))
    return "# made by the operator\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _worker_lines(release: Release, resource: Resource) -> Iterator[tuple[str, str]]:
    target = resource.target
    yield "bootstrap.servers", target.bootstrap
    yield "group.id", resource.group
    for kind, topic in (("config", "configs"), ("status", "status"), ("offset", "offsets")):
        yield f"{kind}.storage.topic", f"{resource.group}-{topic}"
    yield "rest.advertised.host.name", "${strimzienv:ADVERTISED_HOSTNAME}"
    yield "rest.advertised.port", str(REST_PORT)
    yield "plugin.path", "/opt/kafka/plugins"
    for prefix in CLIENTS:
        for key, value in _worker_login(release, resource).items():
            yield prefix + key, value
    if resource.rack == "topology":
        yield "consumer.client.rack", "${strimzidir:/opt/kafka/init:rack.id}"
    elif resource.rack is not None:
        yield "consumer.client.rack", f"${{strimzienv:{resource.rack}}}"
    if resource.metrics == "reporter":
        for prefix in ("", "admin.", "producer.", "consumer."):
            yield f"{prefix}prometheus.metrics.reporter.listener.enable", "true"
            yield f"{prefix}prometheus.metrics.reporter.listener", "http://:9404"
            yield f"{prefix}prometheus.metrics.reporter.allowlist", "kafka_connect_.*,kafka_consumer_.*"
    yield "config.providers", "strimzienv,strimzifile,strimzidir,strimzisecrets"
    yield "config.providers.strimzienv.class", f"{PROVIDERS}.EnvVarConfigProvider"
    yield "config.providers.strimzienv.param.allowlist.pattern", ".*"
    yield "config.providers.strimzifile.class", f"{PROVIDERS}.FileConfigProvider"
    yield "config.providers.strimzidir.class", f"{PROVIDERS}.DirectoryConfigProvider"
    yield "config.providers.strimzidir.param.allowed.paths", "/opt/kafka"
    yield "config.providers.strimzisecrets.class", "io.strimzi.kafka.KubernetesSecretConfigProvider"
    reporter = {"jmx": "org.apache.kafka.common.metrics.JmxReporter", "reporter": release.reporter}
    if resource.metrics is not None:
        for prefix in ("", "admin.", "producer.", "consumer."):
            yield f"{prefix}metric.reporters", reporter[resource.metrics]
    for kind in ("key", "value", "header"):
        yield f"{kind}.converter", BYTES
    for prefix in ("consumer.", "producer.") if resource.traced else ():
        yield f"{prefix}interceptor.classes", _interceptor(prefix)
    yield from target.config.items()
    for prefix in CLIENTS:
        yield f"{prefix}security.protocol", target.protocol


def _interceptor(prefix: str) -> str:
    kind = prefix.removesuffix(".").capitalize()
    return f"io.opentelemetry.instrumentation.kafkaclients.v2_6.Tracing{kind}Interceptor"


def _worker_login(release: Release, resource: Resource) -> dict[str, str]:
    target, found = resource.target, dict[str, str]()
    if target.trusted is not None:
        found |= {
            "ssl.truststore.certificates": _secret(resource.trusted_secret, "ca.crt"),
            "ssl.truststore.type": "PEM",
        }
    if isinstance(target.login, Certificate):
        found |= _shown(target.login)
    elif target.login is not None:
        mounted = f"${{strimzidir:/opt/kafka/connect-password/{target.login.secret}:password}}"
        found |= _password(target.login, mounted if release.mounts else _secret(target.login.secret, "password"))
    return found


def _secret(name: str, key: str) -> str:
    return f"${{strimzisecrets:{NAMESPACE}/{name}:{key}}}"


def _shown(login: Certificate) -> dict[str, str]:
    return {
        "ssl.keystore.certificate.chain": _secret(login.secret, "user.crt"),
        "ssl.keystore.key": _secret(login.secret, "user.key"),
        "ssl.keystore.type": "PEM",
    }


def _password(login: Login, reference: str) -> dict[str, str]:
    return {
        "sasl.mechanism": login.mechanism,
        "sasl.jaas.config": f'{login.module} required username="{login.user}" password="{reference}";',
    }


def connector_configs(release: Release, resource: Resource) -> dict[str, dict[str, str]]:
    """The configuration of each connector, by name, as the operator compares it with the worker's."""
    made: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        if kind not in resource.connectors:
            continue
        config = _cluster_lines(release, resource, resource.target, "target.cluster.")
        config |= _cluster_lines(release, resource, resource.source, "source.cluster.")
        config |= resource.connectors[kind]
        config |= {"topics": resource.topics, "groups": resource.groups}
        if resource.traced:
            config |= {f"{prefix}interceptor.classes": _interceptor(prefix) for prefix in ("consumer.", "producer.")}
        if resource.rack is not None:
            config["consumer.client.rack"] = "${strimzifile:/tmp/strimzi-connect.properties:consumer.client.rack}"
        if resource.metrics == "reporter":
            config |= {"metric.reporters": release.reporter, "prometheus.metrics.reporter.listener.enable": "false"}
        if resource.tasks_max is not None:
            config["tasks.max"] = str(resource.tasks_max)
        name = f"{resource.source.alias}->{resource.target.alias}.{kind}"
        made[name] = {**config, "name": name, "connector.class": f"{PACKAGE}.{kind}"}
    return made


def _cluster_lines(release: Release, resource: Resource, cluster: Cluster, prefix: str) -> dict[str, str]:
    found = {"alias": cluster.alias, "bootstrap.servers": cluster.bootstrap}
    stores = f"/tmp/kafka/clusters/{cluster.alias}"
    opened = "${strimzienv:MIRRORMAKER_2_CERTS_STORE_PASSWORD}"
    if cluster.trusted is not None and release.mounts:
        found |= {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": f"{stores}.truststore.p12",
            "ssl.truststore.password": opened,
        }
    elif cluster.trusted is not None:
        reference = _secret(resource.trusted_secret, f"{cluster.alias}-ca.crt")
        found |= {"ssl.truststore.certificates": reference, "ssl.truststore.type": "PEM"}
    if isinstance(cluster.login, Certificate):
        found |= (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": f"{stores}.keystore.p12",
                "ssl.keystore.password": opened,
            }
            if release.mounts
            else _shown(cluster.login)
        )
    elif cluster.login is not None:
        mounted = f"${{strimzidir:/opt/kafka/mm2-password/{cluster.alias}/{cluster.login.secret}:password}}"
        found |= _password(cluster.login, mounted if release.mounts else _secret(cluster.login.secret, "password"))
    found["security.protocol"] = cluster.protocol
    return {prefix + key: value for key, value in {**found, **cluster.config}.items()}


def environment(release: Release, resource: Resource) -> dict[str, str]:
    """The variables of the container, without those that the image itself sets."""
    found = {
        "KAFKA_CONNECT_JMX_EXPORTER_ENABLED": str(resource.metrics == "jmx").lower(),
        "STRIMZI_KAFKA_GC_LOG_ENABLED": "false",
        **({} if "KAFKA_HEAP_OPTS" in resource.jvm else {"KAFKA_HEAP_OPTS": "-Xms128M"}),
        **({"STRIMZI_TRACING": "opentelemetry"} if resource.traced else {}),
        **resource.jvm,
        "KAFKA_MIRRORMAKER_2_CLUSTERS": f"{resource.target.alias};{resource.source.alias}",
    }
    if release.mounts:
        clusters = (resource.target, resource.source)
        shown = [one for one in clusters if isinstance(one.login, Certificate)]
        trusted = [f"{one.alias}={one.trusted}/*.crt" for one in clusters if one.trusted is not None]
        if trusted:
            found["KAFKA_MIRRORMAKER_2_TRUSTED_CERTS_CLUSTERS"] = "\n".join(trusted)
        if shown:
            prefix = "KAFKA_MIRRORMAKER_2_TLS_AUTH"
            found[f"{prefix}_CLUSTERS"] = "true"
            for word, key in (("CERTS", "user.crt"), ("KEYS", "user.key")):
                lines = [f"{one.alias}={one.login.secret}/{key}" for one in shown if one.login is not None]
                found[f"{prefix}_{word}_CLUSTERS"] = "\n".join(lines)
    return found


def mounts(release: Release, resource: Resource) -> dict[Path, str]:
    """The folders of Secrets in the container, each with the name of its Secret."""
    if not release.mounts:
        return {}
    kafka, found = Path("/opt/kafka"), dict[Path, str]()
    if isinstance(resource.target.login, Login):
        found[kafka / "connect-password" / resource.target.login.secret] = resource.target.login.secret
    for one in (resource.target, resource.source):
        if one.trusted is not None:
            found[kafka / "mm2-certs" / one.alias / one.trusted] = one.trusted
        if isinstance(one.login, Certificate):
            found[kafka / "mm2-certs" / one.alias / one.login.secret] = one.login.secret
        elif one.login is not None:
            found[kafka / "mm2-password" / one.alias / one.login.secret] = one.login.secret
    return found


def log4j2_properties(resource: Resource) -> str:
    """The file log4j2.properties of the pod's ConfigMap: the default levels, and those of spec.logging."""
    lines = {
        "name": "KafkaMirrorMaker2Config",
        "appender.console.type": "Console",
        "appender.console.name": "STDOUT",
        "appender.console.layout.type": "PatternLayout",
        "appender.console.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n",
        "rootLogger.level": "INFO",
        "rootLogger.appenderRefs": "console",
        "rootLogger.appenderRef.console.ref": "STDOUT",
        "logger.reflections.name": "org.reflections",
        "logger.reflections.level": "ERROR",
        **resource.loggers,
        "monitorInterval": "30",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())
