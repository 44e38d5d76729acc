"""Keys for connecting to a cluster and logging in; the same for every client.

Names, types and defaults are Kafka 4.3's (the definition inside class MirrorClientConfig). A file may write them at top
level, below an alias, or below a client of an alias.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twinlog.config.keys.key import (
    HIGH,
    LOW,
    MEDIUM,
    Effect,
    Importance,
    Key,
    KeyType,
    Level,
    Shown,
    ValueForm,
    setting,
)
from twinlog.settings.client import ClientSettings
from twinlog.settings.oauth import AssertionSettings, TokenSettings

BOOL, INT, LONG, SHORT = KeyType.BOOL, KeyType.INT, KeyType.LONG, KeyType.SHORT
DOUBLE, LIST, STRING, CLASS = KeyType.DOUBLE, KeyType.LIST, KeyType.STRING, KeyType.CLASS
PASSWORD, ENUM = KeyType.PASSWORD, KeyType.ENUM

_MEDIUM_4_1 = Shown(Importance.MEDIUM, since=(4, 1))
_LOW_4_1 = Shown(Importance.LOW, since=(4, 1))


def _works(shown: Shown | None, name: str, type: KeyType, default: str | None, doc: str, **rules: Any) -> Key:  # noqa: A002
    return Key(name, type, default, doc, Level.SECURITY, shown=shown, **rules)


def _works_setting(shown: Shown | None, kind: type, name: str, type: KeyType, doc: str, **rules: Any) -> Key:  # noqa: A002
    return setting(kind, name, type, doc, Level.SECURITY, shown=shown, **rules)


_broker = partial(_works, effect=Effect.BROKER)
_jvm = partial(_works, effect=Effect.JVM)

_OAUTH = "sasl.oauthbearer."
_JAVA_TLS = "TLS of a Java process; twinlog uses OpenSSL."
_JAVA_LOGIN = "Login of a Java process."
_KERBEROS = "Kerberos is unsupported; see [Security](security.md)."

SECURITY_KEYS = (
    _works(None, "bootstrap.servers", LIST, None, "First brokers to ask, as host:port.", form=ValueForm.SERVERS),
    _works_setting(
        MEDIUM,
        ClientSettings,
        "security.protocol",
        ENUM,
        "Protection of connections.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        any_case=True,
    ),
    _works(MEDIUM, "ssl.protocol", STRING, "TLSv1.3", "Newest TLS version."),
    _jvm(MEDIUM, "ssl.provider", STRING, None, _JAVA_TLS),
    _works(
        LOW,
        "ssl.cipher.suites",
        LIST,
        "",
        "Allowed cipher suites, by their names in Java; `DEFAULT@SECLEVEL=0` lets OpenSSL accept [weak "
        "certificates](security.md#weak-certificates).",
    ),
    _works(MEDIUM, "ssl.enabled.protocols", LIST, "TLSv1.2, TLSv1.3", "Allowed TLS versions."),
    _works(MEDIUM, "ssl.keystore.type", STRING, "JKS", "Format of the key store file: PEM, PKCS12 or JKS."),
    _works(HIGH, "ssl.keystore.location", STRING, None, "File with the client's certificate and key."),
    _works(HIGH, "ssl.keystore.password", PASSWORD, None, "Password of the key store file."),
    _works(HIGH, "ssl.key.password", PASSWORD, None, "Password of the client's private key."),
    _works(HIGH, "ssl.keystore.key", PASSWORD, None, "The client's private key, as PEM text (type PEM)."),
    _works(
        HIGH, "ssl.keystore.certificate.chain", PASSWORD, None, "The client's certificates, as PEM text (type PEM)."
    ),
    _works(HIGH, "ssl.truststore.certificates", PASSWORD, None, "Trusted certificates, as PEM text (type PEM)."),
    _works(MEDIUM, "ssl.truststore.type", STRING, "JKS", "Format of the trust store file: PEM, PKCS12 or JKS."),
    _works(
        HIGH,
        "ssl.truststore.location",
        STRING,
        None,
        "File with trusted certificates; by default the operating system's certificates.",
    ),
    _works(HIGH, "ssl.truststore.password", PASSWORD, None, "Password of the trust store file."),
    _jvm(LOW, "ssl.keymanager.algorithm", STRING, "SunX509", _JAVA_TLS),
    _jvm(LOW, "ssl.trustmanager.algorithm", STRING, "PKIX", _JAVA_TLS),
    _works(
        LOW,
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "`https` checks that the broker's certificate names its host; empty turns the check off.",
    ),
    _jvm(LOW, "ssl.secure.random.implementation", STRING, None, _JAVA_TLS),
    _jvm(LOW, "ssl.engine.factory.class", CLASS, None, _JAVA_TLS),
    _jvm(MEDIUM, "sasl.kerberos.service.name", STRING, None, _KERBEROS),
    _jvm(LOW, "sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", _KERBEROS),
    _jvm(LOW, "sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", _KERBEROS),
    _jvm(LOW, "sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", _KERBEROS),
    _jvm(LOW, "sasl.kerberos.min.time.before.relogin", LONG, "60000", _KERBEROS),
    _works_setting(
        LOW,
        TokenSettings,
        "sasl.login.refresh.window.factor",
        DOUBLE,
        "Part of a token's life until its renewal.",
        minimum=0.5,
        maximum=1.0,
    ),
    _works_setting(
        LOW,
        TokenSettings,
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        "Random part of the time until a token's renewal.",
        minimum=0.0,
        maximum=0.25,
    ),
    _works_setting(
        LOW,
        TokenSettings,
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        "Fewest seconds between two token renewals.",
        minimum=0,
        maximum=900,
    ),
    _works_setting(
        LOW,
        TokenSettings,
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        "Seconds between a token's renewal and its end.",
        minimum=0,
        maximum=3600,
    ),
    _works(MEDIUM, "sasl.mechanism", STRING, "GSSAPI", "Login: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
    _works(MEDIUM, "sasl.jaas.config", PASSWORD, None, "Login module with its credentials."),
    _jvm(MEDIUM, "sasl.client.callback.handler.class", CLASS, None, _JAVA_LOGIN),
    _works(
        MEDIUM,
        "sasl.login.callback.handler.class",
        CLASS,
        None,
        "Class of Kafka by which OAUTHBEARER obtains a token.",
    ),
    _jvm(MEDIUM, "sasl.login.class", CLASS, None, _JAVA_LOGIN),
    _works(
        LOW, "sasl.login.connect.timeout.ms", INT, None, "Milliseconds to connect to a token server; 30000 by default."
    ),
    _works(
        LOW,
        "sasl.login.read.timeout.ms",
        INT,
        None,
        "Milliseconds to wait for a token server's answer; 30000 by default.",
    ),
    _works_setting(
        LOW, TokenSettings, "sasl.login.retry.backoff.max.ms", LONG, "Longest pause after failed token requests."
    ),
    _works_setting(
        LOW,
        TokenSettings,
        "sasl.login.retry.backoff.ms",
        LONG,
        "First pause after a failed token request, in milliseconds.",
    ),
    _works(
        _MEDIUM_4_1,
        _OAUTH + "jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Class of Kafka that retrieves a token.",
    ),
    _jvm(
        _MEDIUM_4_1,
        _OAUTH + "jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        _JAVA_LOGIN,
    ),
    _works(_MEDIUM_4_1, _OAUTH + "scope", STRING, None, "Scope of the token."),
    _works(_MEDIUM_4_1, _OAUTH + "client.credentials.client.id", STRING, None, "Client id sent to the token server."),
    _works(
        _MEDIUM_4_1,
        _OAUTH + "client.credentials.client.secret",
        PASSWORD,
        None,
        "Client secret sent to the token server.",
    ),
    _works_setting(
        _MEDIUM_4_1,
        AssertionSettings,
        _OAUTH + "assertion.algorithm",
        STRING,
        "Algorithm that signs the client's assertion.",
    ),
    _works(_MEDIUM_4_1, _OAUTH + "assertion.claim.aud", STRING, None, "Audience claimed by the assertion."),
    _works_setting(
        _LOW_4_1, AssertionSettings, _OAUTH + "assertion.claim.exp.seconds", INT, "Seconds the assertion is valid."
    ),
    _works(_MEDIUM_4_1, _OAUTH + "assertion.claim.iss", STRING, None, "Issuer claimed by the assertion."),
    _works_setting(
        _MEDIUM_4_1,
        AssertionSettings,
        _OAUTH + "assertion.claim.jti.include",
        BOOL,
        "Adds an id to the assertion.",
    ),
    _works_setting(
        _LOW_4_1,
        AssertionSettings,
        _OAUTH + "assertion.claim.nbf.seconds",
        INT,
        "Seconds the assertion is valid into the past.",
    ),
    _works(_MEDIUM_4_1, _OAUTH + "assertion.claim.sub", STRING, None, "Subject claimed by the assertion."),
    _works(_MEDIUM_4_1, _OAUTH + "assertion.file", STRING, None, "File with a ready assertion."),
    _works(
        _MEDIUM_4_1, _OAUTH + "assertion.private.key.file", STRING, None, "File with the key that signs the assertion."
    ),
    _works(
        _MEDIUM_4_1,
        _OAUTH + "assertion.private.key.passphrase",
        PASSWORD,
        None,
        "Passphrase of the key that signs the assertion.",
    ),
    _works(_MEDIUM_4_1, _OAUTH + "assertion.template.file", STRING, None, "File with further claims of the assertion."),
    _broker(LOW, _OAUTH + "scope.claim.name", STRING, "scope", "Claim that holds a token's scope."),
    _broker(LOW, _OAUTH + "sub.claim.name", STRING, "sub", "Claim that holds a token's subject."),
    _works(MEDIUM, _OAUTH + "token.endpoint.url", STRING, None, "Address of the token server."),
    _broker(MEDIUM, _OAUTH + "jwks.endpoint.url", STRING, None, "The address of the keys that verify tokens."),
    _broker(LOW, _OAUTH + "jwks.endpoint.refresh.ms", LONG, "3600000", "Milliseconds between two reads of the keys."),
    _broker(LOW, _OAUTH + "jwks.endpoint.retry.backoff.max.ms", LONG, "10000", "Longest pause after failed reads."),
    _broker(
        LOW, _OAUTH + "jwks.endpoint.retry.backoff.ms", LONG, "100", "First pause after a failed read of the keys."
    ),
    _broker(LOW, _OAUTH + "clock.skew.seconds", INT, "30", "Seconds two clocks may differ when a token is checked."),
    _broker(LOW, _OAUTH + "expected.audience", LIST, "", "Audiences a token may name."),
    _broker(LOW, _OAUTH + "expected.issuer", STRING, None, "Issuer a token must name."),
    _works_setting(LOW, TokenSettings, _OAUTH + "header.urlencode", BOOL, "Encodes client id and secret for URLs."),
)
