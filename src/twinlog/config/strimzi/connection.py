"""The connection to a cluster of a resource, as settings of Kafka's clients, with the values of Secrets and ConfigMaps.

The settings follow Strimzi's class KafkaMirrorMaker2Connectors. The values come from the resource's own file, from a
directory as kubelet mounts them, or from the environment.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import escaped
from twinlog.config.security.oauth_strimzi import HANDLER
from twinlog.config.strimzi import DIRECTORY_VARIABLE
from twinlog.config.strimzi.document import DocumentNode, ResourceCheck
from twinlog.config.strimzi.fields import forbidden
from twinlog.config.text.kubernetes import KUBERNETES_CLASSES
from twinlog.config.text.values import Lookup, MissingError

_PREFIX = "TWINLOG_SECRET_"
_OTHER = re.compile(r"[^A-Z0-9]")


def variable_of(name: str, key: str) -> str:
    """The environment variable for `key` of the Secret `name`."""
    return _PREFIX + _OTHER.sub("_", f"{name}_{key}".upper())


@dataclass(frozen=True, slots=True)
class Secrets:
    """Looks values up: in documents beside the resource, then in DIRECTORY/<name>/<key>, then in the environment."""

    documents: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def read(self, name: str, key: str) -> str:
        """The value of `key` of a Secret or ConfigMap, with trailing line ends removed. Raises MissingError."""
        if (name, key) in self.documents:
            return self.documents[name, key].rstrip("\r\n")
        _check_name(name)
        _check_name(key)
        path = self.path_of(name, key)
        if path is not None:
            try:
                return path.read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                raise MissingError(f"{path} is unreadable: {reason}", "let this process read the file") from None
        variable = variable_of(name, key)
        if variable in self.environment:
            return self.environment[variable].rstrip("\r\n")
        text = f"the key {key!r} of {name} is missing: {self._looked(name, key)}"
        raise MissingError(text, f"give --secrets DIR with the file DIR/{name}/{key}, or set that variable")

    def read_all(self, name: str, pattern: str) -> str:
        """The values of all keys that match a pattern, for example `*.crt`, joined by line ends. Raises
        MissingError."""
        keys = self.matching_keys(name, pattern)
        if not keys:
            text = f"all keys of {name} differ from {pattern}: {self._looked(name, pattern)}"
            raise MissingError(text, f"give --secrets DIR with the files DIR/{name}/{pattern}")
        return "\n".join(self.read(name, key) for key in keys)

    def matching_keys(self, name: str, pattern: str) -> list[str]:
        """The keys of a Secret or ConfigMap that match a pattern, in the order in which Strimzi joins their values."""
        return [key for key in self.keys(name) if fnmatch.fnmatchcase(key, pattern)]

    def keys(self, name: str) -> list[str]:
        """The keys of a Secret or ConfigMap; empty if it is in the environment."""
        found = {key for one, key in self.documents if one == name}
        folder = None if self.directory is None else self.directory / name
        if folder is not None and folder.is_dir():
            # Kubernetes keeps mounted files below a directory with dots.
            found |= {one.name for one in folder.iterdir() if one.is_file() and not one.name.startswith("..")}
        return sorted(found)

    def path_of(self, name: str, key: str) -> Path | None:
        """The file that holds `key` of `name`; None if it is missing."""
        if self.directory is None:
            return None
        path = self.directory / name / key
        return path if path.exists() else None

    def version(self) -> object:
        """Another value once a file of the directory was written, replaced or removed."""
        found = []
        for path in sorted(self.directory.glob("*/*")) if self.directory is not None else ():
            with suppress(OSError):
                state = path.stat()
                found.append((str(path), state.st_ino, state.st_mtime_ns, state.st_size))
        return found

    def _looked(self, name: str, key: str) -> str:
        where = f"file {self.directory / name / key} is missing" if self.directory is not None else "--secrets is unset"
        return f"{where}, and variable {variable_of(name, key)} is unset"

    def lookups(self) -> dict[str, Lookup]:
        """The config providers that a resource refers to, by the names that Strimzi gives them."""

        def quoted(path: str, key: str) -> str:
            return escaped(self._named(path, key))

        def variable(path: str, key: str) -> str:
            if key not in os.environ:
                raise MissingError(f"the variable {key} is unset", f"set it before the start: export {key}=VALUE")
            return os.environ[key]

        return {"strimzisecrets": self._named, "strimziquoted": quoted, "strimzienv": variable}

    def classes(self) -> dict[str, Lookup]:
        """Strimzi's classes of config providers that a resource may name, and that ask Kubernetes there."""
        return dict.fromkeys(KUBERNETES_CLASSES, self._named)

    def _named(self, path: str, key: str) -> str:
        """The value of a reference of Strimzi's, NAMESPACE/NAME and a key or a pattern of keys. Raises MissingError."""
        name = path.rpartition("/")[2]
        return self.read_all(name, key) if is_pattern(key) else self.read(name, key)


def is_pattern(key: str) -> bool:
    """Whether the key of a reference is a pattern of several keys, for example `*.crt`."""
    return "*" in key or "?" in key


def is_file_name(name: str) -> bool:
    """Whether the name of a Secret, or a key, stays below the directory of Secrets."""
    return Path(name).name == name and name not in {".", ".."}


def _check_name(name: str) -> None:
    if not is_file_name(name):
        raise MissingError(f"{name!r} is an invalid file name", "write the name of a Secret, and a key in it")


def read_secret_documents(documents: Sequence[DocumentNode]) -> dict[tuple[str, str], str]:
    """The values of Secrets and ConfigMaps among `documents`, by name and key."""
    found: dict[tuple[str, str], str] = {}
    for one in documents:
        name, kind = one.text_of("metadata", "name"), one.text_of("kind")
        if name is None or kind not in {"Secret", "ConfigMap"}:
            continue
        for section in ("data", "stringData"):
            values = one.get(section)
            for key, value in (values.children if values is not None else {}).items():
                text = value.text
                if kind == "Secret" and section == "data":
                    try:
                        text = base64.b64decode(text, validate=False).decode("utf-8")
                    except (binascii.Error, UnicodeDecodeError):
                        continue
                found[name, key] = text
    return found


def secrets_of(documents: Sequence[DocumentNode], directory: Path | None) -> Secrets:
    """The sources of a resource's values; if `directory` is None, the environment's directory counts, if set."""
    named = os.environ.get(DIRECTORY_VARIABLE, "").strip()
    return Secrets(read_secret_documents(documents), directory or (Path(named) if named else None))


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
                self.found.wrong(
                    authentication, "a certificate, but TLS is off", "tls: {} or tls with trustedCertificates"
                )
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
        for name, option in (
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
            text = login.text_of(name)
            if text is not None:
                options[option] = text
        if login.text_of("disableTlsHostnameVerification") == "true":
            options["oauth.ssl.endpoint.identification.algorithm"] = ""
        for name, option, key in _TOKEN_SECRETS:
            one = login.get(name)
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
                found = " and ".join(fields) or "lacks certificate and pattern"
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
