"""How a Connect worker shows the keys of MirrorMaker 2's connectors: which there are, in which order, how important.

The key table has the meaning, the accepted values and the default of a key; here are only the additions of a worker
when it is asked for the definitions of a plugin. Facts are from Kafka 3.9 and 4.3 (classes ConnectorConfig,
SourceConnectorConfig, MirrorConnectorConfig and its three heirs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType

from twinlog.settings.flow import ConnectorKind

Release = tuple[int, int]
"""A line of Kafka's releases, for example 4.3."""


class Importance(StrEnum):
    """How important a key is (Kafka class ConfigDef.Importance)."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide a field a form gives to a key (Kafka class ConfigDef.Width)."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key as a worker shows it. Keys of Connect itself have a `group` and a `label`, all other keys only their name.

    `default` is set if a connector has another default than a file. Kafka has the key from the release `since` on, and
    has dropped it in `until`.
    """

    name: str
    importance: Importance
    group: str | None = None
    width: Width = Width.NONE
    label: str | None = None
    default: str | None = None
    since: Release = (3, 0)
    until: Release = (99, 0)

    def exists_in(self, release: Release) -> bool:
        """Whether a worker of that release knows the key."""
        return self.since <= release < self.until


_high = partial(ShownKey, importance=Importance.HIGH)
_medium = partial(ShownKey, importance=Importance.MEDIUM)
_low = partial(ShownKey, importance=Importance.LOW)

ORDER_SERIES: Mapping[str, str] = MappingProxyType(
    {"Transforms": "Common", "Predicates": "Common", "Exactly Once Support": "Topic Creation"}
)
"""Groups whose keys continue the order numbers of another group, though each group is a section of its own in a
form."""

CONNECT_SHOWN = (
    _high("name", group="Common", width=Width.MEDIUM, label="Connector name"),
    _high("connector.class", group="Common", width=Width.LONG, label="Connector class"),
    _medium("connector.plugin.version", group="Common", width=Width.MEDIUM, label="Connector version", since=(4, 1)),
    _high("tasks.max", group="Common", width=Width.SHORT, label="Tasks max"),
    _low("tasks.max.enforce", group="Common", width=Width.SHORT, label="Enforce tasks max"),
    _low("key.converter", group="Common", width=Width.SHORT, label="Key converter class"),
    _low(
        "key.converter.plugin.version", group="Common", width=Width.SHORT, label="Key converter version", since=(4, 1)
    ),
    _low("value.converter", group="Common", width=Width.SHORT, label="Value converter class"),
    _low(
        "value.converter.plugin.version",
        group="Common",
        width=Width.SHORT,
        label="Value converter version",
        since=(4, 1),
    ),
    _low("header.converter", group="Common", width=Width.SHORT, label="Header converter class"),
    _low(
        "header.converter.plugin.version",
        group="Common",
        width=Width.SHORT,
        label="Header converter version",
        since=(4, 1),
    ),
    _low("transforms", group="Transforms", width=Width.LONG, label="Transforms"),
    _low("predicates", group="Predicates", width=Width.LONG, label="Predicates"),
    _low("config.action.reload", group="Common", width=Width.MEDIUM, label="Reload Action"),
    _medium("errors.retry.timeout", group="Error Handling", width=Width.MEDIUM, label="Retry Timeout for Errors"),
    _medium(
        "errors.retry.delay.max.ms",
        group="Error Handling",
        width=Width.MEDIUM,
        label="Maximum Delay Between Retries for Errors",
    ),
    _medium("errors.tolerance", group="Error Handling", width=Width.SHORT, label="Error Tolerance"),
    _medium("errors.log.enable", group="Error Handling", width=Width.SHORT, label="Log Errors"),
    _medium("errors.log.include.messages", group="Error Handling", width=Width.SHORT, label="Log Error Details"),
    _low("topic.creation.groups", group="Topic Creation", width=Width.LONG, label="Topic Creation Groups"),
    _medium("exactly.once.support", group="Exactly Once Support", width=Width.SHORT, label="Exactly once support"),
    _medium("transaction.boundary", group="Exactly Once Support", width=Width.SHORT, label="Transaction Boundary"),
    _low(
        "transaction.boundary.interval.ms",
        group="Exactly Once Support",
        width=Width.SHORT,
        label="Transaction boundary interval",
    ),
    _low("offsets.storage.topic", group="offsets.topic", width=Width.LONG, label="Offsets topic"),
)

MIRROR_SHOWN = (
    _low("enabled", default="true"),
    _high("source.cluster.alias"),
    _high("target.cluster.alias", default="target"),
    _low("admin.timeout.ms"),
    _low("replication.policy.class"),
    _low("replication.policy.separator"),
    _low("replication.policy.internal.topic.separator.enabled"),
    _low("forwarding.admin.class"),
    _low("metric.reporters"),
    _medium("security.protocol"),
    _low("auto.include.jmx.reporter", until=(4, 0)),
    _low("config.providers", since=(4, 2)),
    _medium("ssl.protocol"),
    _medium("ssl.provider"),
    _low("ssl.cipher.suites"),
    _medium("ssl.enabled.protocols"),
    _medium("ssl.keystore.type"),
    _high("ssl.keystore.location"),
    _high("ssl.keystore.password"),
    _high("ssl.key.password"),
    _high("ssl.keystore.key"),
    _high("ssl.keystore.certificate.chain"),
    _high("ssl.truststore.certificates"),
    _medium("ssl.truststore.type"),
    _high("ssl.truststore.location"),
    _high("ssl.truststore.password"),
    _low("ssl.keymanager.algorithm"),
    _low("ssl.trustmanager.algorithm"),
    _low("ssl.endpoint.identification.algorithm"),
    _low("ssl.secure.random.implementation"),
    _low("ssl.engine.factory.class"),
    _medium("sasl.kerberos.service.name"),
    _low("sasl.kerberos.kinit.cmd"),
    _low("sasl.kerberos.ticket.renew.window.factor"),
    _low("sasl.kerberos.ticket.renew.jitter"),
    _low("sasl.kerberos.min.time.before.relogin"),
    _low("sasl.login.refresh.window.factor"),
    _low("sasl.login.refresh.window.jitter"),
    _low("sasl.login.refresh.min.period.seconds"),
    _low("sasl.login.refresh.buffer.seconds"),
    _medium("sasl.mechanism"),
    _medium("sasl.jaas.config"),
    _medium("sasl.client.callback.handler.class"),
    _medium("sasl.login.callback.handler.class"),
    _medium("sasl.login.class"),
    _low("sasl.login.connect.timeout.ms"),
    _low("sasl.login.read.timeout.ms"),
    _low("sasl.login.retry.backoff.max.ms"),
    _low("sasl.login.retry.backoff.ms"),
    _medium("sasl.oauthbearer.jwt.retriever.class", since=(4, 1)),
    _medium("sasl.oauthbearer.jwt.validator.class", since=(4, 1)),
    _medium("sasl.oauthbearer.scope", since=(4, 1)),
    _medium("sasl.oauthbearer.client.credentials.client.id", since=(4, 1)),
    _medium("sasl.oauthbearer.client.credentials.client.secret", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.algorithm", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.claim.aud", since=(4, 1)),
    _low("sasl.oauthbearer.assertion.claim.exp.seconds", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.claim.iss", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.claim.jti.include", since=(4, 1)),
    _low("sasl.oauthbearer.assertion.claim.nbf.seconds", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.claim.sub", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.file", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.private.key.file", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.private.key.passphrase", since=(4, 1)),
    _medium("sasl.oauthbearer.assertion.template.file", since=(4, 1)),
    _low("sasl.oauthbearer.scope.claim.name"),
    _low("sasl.oauthbearer.sub.claim.name"),
    _medium("sasl.oauthbearer.token.endpoint.url"),
    _medium("sasl.oauthbearer.jwks.endpoint.url"),
    _low("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
    _low("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    _low("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
    _low("sasl.oauthbearer.clock.skew.seconds"),
    _low("sasl.oauthbearer.expected.audience"),
    _low("sasl.oauthbearer.expected.issuer"),
    _low("sasl.oauthbearer.header.urlencode"),
)

_OF_KIND: Mapping[ConnectorKind, tuple[ShownKey, ...]] = {
    "source": (
        _high("topics"),
        _high("topics.exclude"),
        _high("topics.blacklist", until=(4, 0)),
        _high("config.properties.exclude"),
        _high("config.properties.blacklist", until=(4, 0)),
        _low("topic.filter.class"),
        _low("config.property.filter.class"),
        _low("consumer.poll.timeout.ms"),
        _low("refresh.topics.enabled"),
        _low("refresh.topics.interval.seconds"),
        _low("sync.topic.configs.enabled"),
        _low("sync.topic.configs.interval.seconds"),
        _low("use.incremental.alter.configs", until=(4, 0)),
        _low("sync.topic.acls.enabled"),
        _low("sync.topic.acls.interval.seconds"),
        _low("replication.factor"),
        _low("offset-syncs.topic.replication.factor"),
        _low("offset.lag.max"),
        _low("offset-syncs.topic.location"),
        _low("add.source.alias.to.metrics", until=(4, 0)),
        _low("emit.offset-syncs.enabled"),
        _low("heartbeats.replication.enabled", since=(4, 0)),
        _low("metric.names.formats", since=(4, 3)),
    ),
    "checkpoint": (
        _low("consumer.poll.timeout.ms"),
        _high("groups"),
        _high("groups.exclude"),
        _high("groups.blacklist", until=(4, 0)),
        _low("group.filter.class"),
        _low("refresh.groups.enabled"),
        _low("refresh.groups.interval.seconds"),
        _low("emit.checkpoints.enabled"),
        _low("emit.checkpoints.interval.seconds"),
        _low("sync.group.offsets.enabled"),
        _low("sync.group.offsets.interval.seconds"),
        _low("checkpoints.topic.replication.factor"),
        _low("offset-syncs.topic.location"),
        _low("topic.filter.class"),
        _low("metric.names.formats", since=(4, 3)),
    ),
    "heartbeat": (
        _low("emit.heartbeats.enabled"),
        _low("emit.heartbeats.interval.seconds"),
        _low("heartbeats.topic.replication.factor"),
    ),
}


def shown_keys(kind: ConnectorKind, release: Release) -> tuple[ShownKey, ...]:
    """The keys of a connector in a worker of `release`, in Kafka's order."""
    every = (*CONNECT_SHOWN, *MIRROR_SHOWN, *_OF_KIND[kind])
    return tuple(key for key in every if key.exists_in(release))
