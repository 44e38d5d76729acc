"""The connection to a cluster of a resource, as settings of Kafka's clients.

Follows Strimzi's class KafkaMirrorMaker2Connectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import escaped
from twinlog.config.security.oauth_strimzi import HANDLER
from twinlog.config.strimzi.check import ResourceCheck
from twinlog.config.strimzi.document import DocumentNode
from twinlog.config.strimzi.fields import forbidden
from twinlog.config.strimzi.secrets import Secrets

_MODULES = "org.apache.kafka.common.security."
_NEEDED = {
    "tls": ("certificateAndKey",),
    "plain": ("username", "passwordSecret"),
    "scram-sha-256": ("username", "passwordSecret"),
    "scram-sha-512": ("username", "passwordSecret"),
}


_TOKEN_SECRETS = (
    ("clientSecret", "oauth.client.secret", "key"),
    ("accessToken", "oauth.access.token", "key"),
    ("refreshToken", "oauth.refresh.token", "key"),
    ("clientAssertion", "oauth.client.assertion", "key"),
    ("passwordSecret", "oauth.password.grant.password", "password"),
)
_READ_AGAIN = ("oauth.access.token", "oauth.refresh.token", "oauth.client.assertion")


@dataclass(frozen=True, slots=True)
class Connection:
    """Reads the fields of a cluster; problems are added to `found`."""

    cluster: DocumentNode
    namespace: str
    secrets: Secrets
    found: ResourceCheck
    is_target: bool

    def entries(self) -> dict[str, PropertyEntry]:
        """Settings by their names with the prefix removed; settings of the cluster's `config` come last."""
        made = {entry.key: entry for entry in self._connection()}
        return made | {entry.key: entry for entry in self.config()}

    def config(self) -> Iterator[PropertyEntry]:
        """The allowed settings of the cluster's `config`."""
        config = self.cluster.get("config")
        for key, value in (config.children if config is not None else {}).items():
            dropped = forbidden(key, self.found.version, storage=self.is_target)
            if not dropped and value.kind not in {"map", "list", "null"}:
                yield self.found.entry(key, value.text, value)

    def _connection(self) -> Iterator[PropertyEntry]:
        servers = self.cluster.get("bootstrapServers")
        if servers is not None:
            yield self.found.entry("bootstrap.servers", servers.text, servers)
        tls, authentication = self.cluster.get("tls"), self.cluster.get("authentication")
        kind = None if authentication is None else authentication.text_of("type")
        sasl = kind in {"plain", "scram-sha-256", "scram-sha-512", "oauth"} or (
            kind == "custom" and authentication is not None and authentication.text_of("sasl") == "true"
        )
        protocol = {(False, False): "PLAINTEXT", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}.get(
            (tls is not None, sasl), "SASL_SSL"
        )
        yield self.found.entry("security.protocol", protocol, authentication or tls or self.cluster)
        if tls is not None:
            yield from self._trusted(tls.get("trustedCertificates"), "")
        if authentication is not None and kind is not None:
            yield from self._login(authentication, kind, tls)

    def _login(self, authentication: DocumentNode, kind: str, tls: DocumentNode | None) -> Iterator[PropertyEntry]:
        missing = [name for name in _NEEDED.get(kind, ()) if authentication.get(name) is None]
        for name in missing:
            self.found.wrong(authentication, f"{name} is missing", f"{name}, which type: {kind} needs")
        if missing:
            return
        if kind == "tls":
            if tls is None:
                self.found.wrong(authentication, "a certificate without TLS", "tls: {} or tls with trustedCertificates")
            own = authentication.children["certificateAndKey"]
            for setting, field in (("certificate.chain", "certificate"), ("key", "key")):
                yield self.found.entry(f"ssl.keystore.{setting}", self._secret(own, field), own)
            yield self.found.entry("ssl.keystore.type", "PEM", own)
        elif kind == "custom":
            config = authentication.get("config")
            for key, value in (config.children if config is not None else {}).items():
                if key.startswith(("sasl.", "ssl.keystore.")):
                    yield self.found.entry(key, value.text, value)
                else:
                    self.found.named.append((value.path, value.line))
        elif kind == "oauth":
            yield from self._tokens(authentication)
        else:
            mechanism = {"plain": "PLAIN"}.get(kind, kind.upper())
            module = "plain.PlainLoginModule" if kind == "plain" else "scram.ScramLoginModule"
            password = self._secret(authentication.children["passwordSecret"], "password", quoted=True)
            options = {"username": authentication.text_of("username") or "", "password": password}
            yield self.found.entry("sasl.mechanism", mechanism, authentication)
            yield self.found.entry("sasl.jaas.config", _jaas(module, options), authentication)

    def _tokens(self, login: DocumentNode) -> Iterator[PropertyEntry]:
        options: dict[str, str] = {}
        for field, option in (
            ("clientId", "oauth.client.id"),
            ("username", "oauth.password.grant.username"),
            ("tokenEndpointUri", "oauth.token.endpoint.uri"),
            ("scope", "oauth.scope"),
            ("audience", "oauth.audience"),
            ("grantType", "oauth.client.credentials.grant.type"),
            ("connectTimeoutSeconds", "oauth.connect.timeout.seconds"),
            ("readTimeoutSeconds", "oauth.read.timeout.seconds"),
            ("accessTokenLocation", "oauth.access.token.location"),
            ("clientAssertionLocation", "oauth.client.assertion.location"),
            ("clientAssertionType", "oauth.client.assertion.type"),
            ("maxTokenExpirySeconds", "oauth.max.token.expiry.seconds"),
        ):
            text = login.text_of(field)
            if text is not None:
                options[option] = text
        if login.text_of("disableTlsHostnameVerification") == "true":
            options["oauth.ssl.endpoint.identification.algorithm"] = ""
        for field, option, key in _TOKEN_SECRETS:
            one = login.get(field)
            if one is None:
                continue
            path = self.secrets.path_of(one.text_of("secretName") or "", one.text_of(key) or "")
            if path is not None and option in _READ_AGAIN:
                # The file is read again for each login: a renewed token appears in it.
                options[f"{option}.location"] = str(path)
            else:
                options[option] = self._secret(one, key, quoted=True)
        extensions = login.get("saslExtensions")
        for name, value in (extensions.children if extensions is not None else {}).items():
            options[f"oauth.sasl.extension.{name}"] = value.text
        certificates = login.get("tlsTrustedCertificates")
        trusted = {entry.key: entry for entry in self._trusted(certificates, "oauth.", quoted=True)}
        options |= {name: entry.written for name, entry in trusted.items()}
        yield self.found.entry("sasl.mechanism", "OAUTHBEARER", login)
        yield self.found.entry("sasl.jaas.config", _jaas("oauthbearer.OAuthBearerLoginModule", options), login)
        yield self.found.entry("sasl.login.callback.handler.class", HANDLER, login)

    def _trusted(
        self, certificates: DocumentNode | None, prefix: str, *, quoted: bool = False
    ) -> Iterator[PropertyEntry]:
        """If certificates are missing, the certificates of the operating system are trusted, as with Java's."""
        if certificates is None or not certificates.items:
            return
        texts = []
        for one in certificates.items:
            fields = [name for name in ("certificate", "pattern") if one.get(name) is not None]
            if len(fields) != 1:
                found = " and ".join(fields) or "neither certificate nor pattern"
                self.found.wrong(one, found, "certificate: ca.crt, or pattern: '*.crt'")
            else:
                texts.append(self._secret(one, fields[0], quoted=quoted))
        yield self.found.entry(f"{prefix}ssl.truststore.certificates", "\n".join(texts), certificates)
        yield self.found.entry(f"{prefix}ssl.truststore.type", "PEM", certificates)

    def _secret(self, source: DocumentNode, field: str, *, quoted: bool = False) -> str:
        """A reference to a value of a Secret, as Strimzi writes it."""
        name, key = source.text_of("secretName") or "", source.text_of(field) or ""
        return f"${{{'strimziquoted' if quoted else 'strimzisecrets'}:{self.namespace}/{name}:{key}}}"


def _jaas(module: str, options: dict[str, str]) -> str:
    words = " ".join(f'{name}="{escaped(value)}"' for name, value in options.items())
    return f"{_MODULES}{module} required {words};"
