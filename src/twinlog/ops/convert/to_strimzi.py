"""Workers and connectors as Strimzi's resource `KafkaMirrorMaker2`, a resource for each target."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from twinlog.config.keys.connect import OWNER
from twinlog.config.keys.table import SECURITY
from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import JaasError, parse_jaas
from twinlog.config.strimzi.connection import is_pattern
from twinlog.config.strimzi.fields import (
    CONNECTOR_FORBIDDEN,
    GROUP,
    STORAGE,
    Version,
    forbidden,
)
from twinlog.ops.convert.model import (
    CONVERTER,
    ConnectorSpec,
    Mirrors,
    NotConverted,
    Output,
    WorkerSpec,
    not_converted,
    owner,
    raw,
)
from twinlog.ops.convert.secrets import NAMESPACE, SecretStore, secret_name, secret_of
from twinlog.settings.flow import ConnectorKind

Yaml = dict[str, Any]
_PATTERNS = {
    "topics": "topicsPattern",
    "topics.exclude": "topicsExcludePattern",
    "groups": "groupsPattern",
    "groups.exclude": "groupsExcludePattern",
}
_OWN = {"connector.class", "name", "tasks.max", "source.cluster.alias", "target.cluster.alias", OWNER}
_STATES = {"PAUSED": "paused", "STOPPED": "stopped"}
_MECHANISMS = {"PLAIN": "plain", "SCRAM-SHA-256": "scram-sha-256", "SCRAM-SHA-512": "scram-sha-512"}
_KINDS: tuple[ConnectorKind, ...] = ("source", "checkpoint", "heartbeat")


def to_strimzi(mirrors: Mirrors, vault: SecretStore, version: Version, name: str = "mirror-maker") -> Output:
    """Files with a resource each; secrets are named as keys of a Secret."""
    writer = _StrimziWriter(mirrors, vault, version)
    files: dict[str, str] = {}
    targets: dict[str, list[WorkerSpec]] = {}
    for worker in mirrors.workers:
        targets.setdefault(worker.target, []).append(worker)
    for target, workers in targets.items():
        resource = writer.resource(target, workers, name if len(targets) == 1 else secret_name(f"{name}-{target}"))
        if resource is not None:
            files[f"{resource['metadata']['name']}.yaml"] = dumped(resource)
    if NAMESPACE in vault.used:
        writer.remarks.append(f"{NAMESPACE} in references means the namespace of the Secrets, for Strimzi")
    return Output(files, vault.kept, tuple(writer.not_converted), tuple(writer.remarks))


def dumped(*documents: Any) -> str:
    """The documents of a YAML file as text, for example a resource and its Secrets."""
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    stream = io.StringIO()
    yaml.dump_all(documents, stream)
    return stream.getvalue()


class _StrimziWriter:
    def __init__(self, mirrors: Mirrors, vault: SecretStore, version: Version) -> None:
        self._vault = vault
        vault.strimzi = True
        self._version = version
        self.not_converted: list[NotConverted] = list(mirrors.not_converted)
        self.remarks: list[str] = list(mirrors.remarks)

    def resource(self, target: str, workers: list[WorkerSpec], name: str) -> Yaml | None:
        connectors = [one for worker in workers for one in worker.connectors]
        if self._version == "v1":
            for one in connectors:
                if one.kind == "heartbeat":
                    key = f"{one.source}->{one.target}: {one.name}"
                    self.not_converted.append(NotConverted(_place(one), key, "v1 lacks heartbeatConnector"))
            connectors = [one for one in connectors if one.kind != "heartbeat"]
            if not connectors:
                return None
        settings = self._worker_settings(workers)
        at_target = self._cluster(target, _cluster_entries(connectors, "target"), settings)
        sources = {
            one.source: _cluster_entries([each for each in connectors if each.source == one.source], "source")
            for one in connectors
        }
        clusters = {alias: self._cluster(alias, entries, {}) for alias, entries in sources.items()}
        self._note_positions(workers)
        spec: Yaml = {"replicas": 1}
        mirrors = [self._mirror(source, target, connectors, clusters[source]) for source in clusters]
        if self._version == "v1":
            storage = {field: settings.get(key, default) for field, (key, default) in STORAGE.items()}
            config = at_target.pop("config", {})
            spec["target"] = at_target | storage | ({"config": config} if config else {})
        else:
            config = at_target.get("config", {}) | {
                key: settings[key] for key, _ in STORAGE.values() if key in settings
            }
            spec["connectCluster"] = target
            spec["clusters"] = [*clusters.values(), at_target | ({"config": config} if config else {})]
        spec["mirrors"] = mirrors
        return {
            "apiVersion": f"{GROUP}/{self._version}",
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": name},
            "spec": spec,
        }

    # -- the worker

    def _worker_settings(self, workers: list[WorkerSpec]) -> dict[str, str]:
        """The common settings of several workers of the same target; a resource has a single worker."""
        found: dict[str, str] = {}
        storage = {key for key, _ in STORAGE.values()}
        for worker in workers:
            for key, entry in worker.entries.items():
                value = self._value(key, entry, worker.target)
                if SECURITY.find_key(key) is not None or (key.endswith(".converter") and value.strip() == CONVERTER):
                    continue
                if key in storage and len(workers) > 1:
                    # Each flow had its own.
                    if entry.line is not None:
                        self.not_converted.append(not_converted(entry, "the flows to a target share a worker there"))
                    continue
                if key == "listeners" and entry.line is None:
                    continue
                if forbidden(key, "v1beta2", storage=True) or key.startswith("admin."):
                    self.not_converted.append(not_converted(entry, "the operator sets it by itself"))
                elif found.setdefault(key, value) != value:
                    self.not_converted.append(not_converted(entry, "the flows to a target share a worker there"))
        return found

    def _note_positions(self, workers: list[WorkerSpec]) -> None:
        for worker in workers:
            for one in worker.connectors:
                name = f"{one.source}->{one.target}.Mirror{one.kind.capitalize()}Connector"
                if one.kind == "source" and (one.name != name or len(workers) > 1):
                    stored = worker.entries.get("offset.storage.topic")
                    where = "its worker's topic" if stored is None else raw(stored)
                    self.remarks.append(
                        f"{one.source}->{one.target}: its positions are in {where} under the name {one.name!r}, and "
                        f"looked for under {name!r}: the flow begins again unless they are written there"
                    )

    # -- clusters

    def _cluster(self, alias: str, entries: Mapping[str, PropertyEntry], worker: Mapping[str, str]) -> Yaml:
        servers = entries.get("bootstrap.servers")
        cluster: Yaml = {"alias": alias, "bootstrapServers": "" if servers is None else raw(servers)}
        protocol = raw(entries["security.protocol"]).strip().upper() if "security.protocol" in entries else "PLAINTEXT"
        left = {key: entry for key, entry in entries.items() if key not in {"bootstrap.servers", "security.protocol"}}
        if protocol.endswith("SSL"):
            cluster["tls"] = self._tls(alias, left)
        if protocol.startswith("SASL"):
            cluster["authentication"] = self._login(alias, left)
        elif "ssl.keystore.location" in left or "ssl.keystore.key" in left:
            cluster["authentication"] = self._certificate(alias, left)
        config: dict[str, str] = {}
        for key, entry in left.items():
            if forbidden(key, "v1", storage=False):
                if protocol != "PLAINTEXT":
                    self.not_converted.append(not_converted(entry, "a resource lacks a field for it"))
            else:
                config[key] = self._value(key, entry, alias)
        storage = {key for key, _ in STORAGE.values()}
        config |= {key: value for key, value in worker.items() if key not in storage}
        if config:
            cluster["config"] = config
        return cluster

    def _tls(self, alias: str, left: dict[str, PropertyEntry]) -> Yaml:
        certificates = left.pop("ssl.truststore.certificates", None)
        location, kind = left.pop("ssl.truststore.location", None), left.pop("ssl.truststore.type", None)
        left.pop("ssl.truststore.password", None)
        if certificates is None and location is None:
            return {"trustedCertificates": []}
        name = f"{alias}-cluster-ca-cert"
        if certificates is not None:
            references = [secret_of(one) for one in raw(certificates).split("\n") if one.strip()]
            if "${" in raw(certificates) and None not in references:
                return {"trustedCertificates": [_trusted(one) for one in references if one is not None]}
            if "${" not in raw(certificates):
                return {"trustedCertificates": [_trusted(self._vault.store_secret(name, "ca.crt", raw(certificates)))]}
            self.not_converted.append(not_converted(certificates, "a resource takes certificates out of Secrets alone"))
        elif location is not None:
            self._keep_file(secret_name(name), "ca.crt", location, kind)
        return {"trustedCertificates": [{"secretName": secret_name(name), "certificate": "ca.crt"}]}

    def _certificate(self, alias: str, left: dict[str, PropertyEntry]) -> Yaml:
        chain, key = left.pop("ssl.keystore.certificate.chain", None), left.pop("ssl.keystore.key", None)
        location, kind = left.pop("ssl.keystore.location", None), left.pop("ssl.keystore.type", None)
        for password in ("ssl.keystore.password", "ssl.key.password"):
            entry = left.pop(password, None)
            if entry is not None and password == "ssl.key.password" and location is None:
                self.not_converted.append(not_converted(entry, "the key in a Secret is unencrypted"))
        name = secret_name(f"{alias}-user")
        names = {"certificate": "user.crt", "key": "user.key"}
        if chain is not None and key is not None:
            found = {}
            for field, entry in (("certificate", chain), ("key", key)):
                reference = secret_of(raw(entry))
                if reference is None and "${" in raw(entry):
                    self.not_converted.append(not_converted(entry, "a resource takes it out of a Secret alone"))
                found[field] = reference or self._vault.store_secret(name, names[field], raw(entry))
            if found["certificate"][0] == found["key"][0]:
                name = found["key"][0]
                names = {field: one[1] for field, one in found.items()}
        elif location is not None:
            self._keep_file(name, "user.crt and user.key", location, kind)
        return {"type": "tls", "certificateAndKey": {"secretName": name, **names}}

    def _keep_file(self, name: str, key: str, location: PropertyEntry, kind: PropertyEntry | None) -> None:
        """Keep a store in a file: PEM is taken as it is, any other form has to be turned into PEM."""
        path = Path(raw(location))
        if key == "ca.crt" and kind is not None and raw(kind).strip().upper() == "PEM" and path.is_file():
            self._vault.store_secret(name, key, path.read_text("ascii", "replace"))
            return
        self.remarks.append(f"{location.place}: {path} has to be put into the Secret {name} as {key}, in PEM")

    def _login(self, alias: str, left: dict[str, PropertyEntry]) -> Yaml:
        mechanism, jaas = left.pop("sasl.mechanism", None), left.pop("sasl.jaas.config", None)
        word = "GSSAPI" if mechanism is None else raw(mechanism).strip().upper()
        try:
            login = None if jaas is None else parse_jaas(raw(jaas))
        except JaasError:
            login = None
        kind = _MECHANISMS.get(word)
        if kind is not None and login is not None and login.family != "OAUTHBEARER" and "${" not in login.username:
            reference = secret_of(login.password)
            if reference is not None or "${" not in login.password:
                secret, key = reference or self._vault.store_secret(f"{alias}-user", "password", login.password)
                return {
                    "type": kind,
                    "username": login.username,
                    "passwordSecret": {"secretName": secret, "password": key},
                }
        config = {} if mechanism is None else {"sasl.mechanism": raw(mechanism)}
        if jaas is not None:
            config["sasl.jaas.config"] = self._value("sasl.jaas.config", jaas, alias)
        for key in [key for key in left if key.startswith(("sasl.", "ssl.keystore."))]:
            config[key] = self._value(key, left.pop(key), alias)
        return {"type": "custom", "sasl": True, "config": config}

    def _value(self, key: str, entry: PropertyEntry, alias: str) -> str:
        """The value for a `config`, in which a secret is a reference of Strimzi's."""
        return self._vault.without_secrets(key, entry, f"{alias}-user")

    # -- mirrors

    def _mirror(self, source: str, target: str, connectors: list[ConnectorSpec], cluster: Yaml) -> Yaml:
        mine = {one.kind: one for one in connectors if one.source == source}
        mirror: Yaml = (
            {"source": cluster} if self._version == "v1" else {"sourceCluster": source, "targetCluster": target}
        )
        shared = dict(self._patterns(mine))
        clusters = {
            "source": _cluster_entries(list(mine.values()), "source"),
            "target": _cluster_entries(connectors, "target"),
        }
        for kind in _KINDS:
            one = mine.get(kind)
            if one is not None:
                mirror[f"{kind}Connector"] = self._connector(one, shared, clusters)
        return mirror | {_PATTERNS[key]: value for key, value in shared.items()}

    def _patterns(self, connectors: Mapping[ConnectorKind, ConnectorSpec]) -> Iterator[tuple[str, str]]:
        """Patterns on which the connectors agree that go by them."""
        for key in _PATTERNS:
            readers = [one for kind, one in connectors.items() if kind != "heartbeat" and owner(key) in {None, kind}]
            values = {raw(one.entries[key]) if key in one.entries else None for one in readers}
            if len(values) == 1 and None not in values:
                yield key, str(values.pop())

    def _connector(
        self, connector: ConnectorSpec, shared: Mapping[str, str], clusters: Mapping[str, Mapping[str, PropertyEntry]]
    ) -> Yaml:
        spec: Yaml = {}
        tasks = connector.entries.get("tasks.max")
        if tasks is not None:
            text = raw(tasks).strip()
            if text.isdigit():
                spec["tasksMax"] = int(text)
            else:
                self.not_converted.append(not_converted(tasks, "a resource has numbers alone here"))
        if connector.state in _STATES:
            spec["state"] = _STATES[connector.state]
        config: dict[str, str] = {}
        for key, entry in connector.entries.items():
            side, _, rest = key.partition(".cluster.")
            alias = {"source.cluster.alias": connector.source, "target.cluster.alias": connector.target}.get(key)
            if alias is not None and raw(entry).strip() != alias:
                what = "remote topics and positions" if side == "source" else "internal topics"
                self.not_converted.append(not_converted(entry, f"the operator has {what} named after {alias!r}"))
            if key in _OWN or key in shared:
                continue
            if key in CONNECTOR_FORBIDDEN:
                self.not_converted.append(not_converted(entry, "the operator sets it by itself"))
            elif side in clusters and SECURITY.find_key(rest) is not None and rest in clusters[side]:
                if raw(clusters[side][rest]) != raw(entry):
                    self._set_at_connector(config, key, entry, connector)
            else:
                config[key] = self._value(
                    key, entry, connector.source if key.startswith("source.") else connector.target
                )
        if config:
            spec["config"] = config
        return spec

    def _set_at_connector(
        self, config: dict[str, str], key: str, entry: PropertyEntry, connector: ConnectorSpec
    ) -> None:
        if self._version == "v1":
            config[key] = self._value(key, entry, connector.source)
        else:
            self.not_converted.append(
                not_converted(entry, "in v1beta2 the settings of a cluster win over those of a connector")
            )


def _cluster_entries(connectors: list[ConnectorSpec], side: str) -> dict[str, PropertyEntry]:
    """The settings of an end of the connectors, by their names after the prefix; of several values the first."""
    found: dict[str, PropertyEntry] = {}
    prefix = f"{side}.cluster."
    for connector in connectors:
        for key, entry in connector.entries.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and name != "alias" and SECURITY.find_key(name) is not None:
                found.setdefault(name, entry)
    return found


def _trusted(reference: tuple[str, str]) -> Yaml:
    name, key = reference
    return {"secretName": name, "pattern" if is_pattern(key) else "certificate": key}


def _place(connector: ConnectorSpec) -> str:
    entry = next(iter(connector.entries.values()))
    return entry.file
