"""A resource in its other version, with all that it holds: comments, templates, logging (Strimzi's conversion tool)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from twinlog.config.strimzi.document import KIND, read_documents
from twinlog.config.strimzi.fields import GROUP, STORAGE, Version
from twinlog.config.strimzi.resource import resource_of
from twinlog.ops.convert.model import NotConverted, Output
from twinlog.ops.convert.to_strimzi import dumped

_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_RENAMED = {"topicsBlacklistPattern": "topicsExcludePattern", "groupsBlacklistPattern": "groupsExcludePattern"}
_DEFAULT_REPLICAS = 3


def to_version(path: Path, version: Version) -> Output:
    """The resource in the file at `path` in `version`; other documents beside it are left out. Raises ConfigError."""
    documents = read_documents(path)
    read = resource_of(documents)
    rest = tuple(
        NotConverted(
            f"{documents.file}:{one.line}", one.text_of("kind") or "(document)", "only the resource is converted"
        )
        for one in documents.others
    )
    resource = next(one for one in _plain(path) if one.get("kind") == KIND)
    not_converted = [*rest]
    if resource["apiVersion"] != f"{GROUP}/{version}":
        resource["apiVersion"] = f"{GROUP}/{version}"
        spec = resource["spec"]
        lines = _KeyLines(documents.file)
        not_converted += list(_to_v1(spec, lines) if version == "v1" else _to_v1beta2(spec))
    return Output({f"{read.name}.yaml": dumped(resource)}, {}, tuple(not_converted), ())


def _plain(path: Path) -> Iterator[Any]:
    for document in YAML().load_all(path.read_text("utf-8")):
        yield from document.get("items", ()) if "items" in document else (document,)


class _KeyLines:
    """The lines of a map's keys."""

    def __init__(self, file: str) -> None:
        self._file = file

    def not_converted(self, holder: Any, key: str, path: str, why: str) -> NotConverted:
        return NotConverted(f"{self._file}:{holder.lc.key(key)[0] + 1}", path, why)


def _to_v1(spec: Any, lines: _KeyLines) -> Iterator[NotConverted]:
    if "target" not in spec:
        yield from _unused(spec, lines)
        clusters = {one["alias"]: one for one in spec.pop("clusters")}
        target = clusters[spec.pop("connectCluster")]
        for mirror in spec["mirrors"]:
            source, wanted = mirror.pop("sourceCluster"), mirror.pop("targetCluster", target["alias"])
            if wanted != target["alias"]:
                # They share their bootstrap servers, or it would have been refused; names of topics go by the alias.
                target = {**clusters[wanted], "config": target.get("config", {})}
            mirror.insert(0, "source", clusters[source])
        config = target.get("config", {})
        for field, (key, default) in STORAGE.items():
            target[field] = config.pop(key, default)
        if "config" in target and not config:
            del target["config"]
        spec.insert(0, "target", target)
    for number, mirror in enumerate(spec["mirrors"]):
        path = f"spec.mirrors[{number}]"
        if "heartbeatConnector" in mirror:
            yield lines.not_converted(
                mirror, "heartbeatConnector", f"{path}.heartbeatConnector", "v1 lacks this connector"
            )
            del mirror["heartbeatConnector"]
        for old, new in _RENAMED.items():
            if old in mirror:
                value = mirror.pop(old)
                mirror.setdefault(new, value)
        for name in _CONNECTORS:
            connector = mirror.get(name) or {}
            if connector.pop("pause", False):
                connector.setdefault("state", "paused")
    spec.setdefault("replicas", _DEFAULT_REPLICAS)
    if "externalConfiguration" in spec:
        yield lines.not_converted(
            spec, "externalConfiguration", "spec.externalConfiguration", "v1 has volumes in template"
        )
        del spec["externalConfiguration"]
    if spec.get("tracing", {}).get("type") == "jaeger":
        yield lines.not_converted(spec, "tracing", "spec.tracing", "v1 lacks jaeger")
        del spec["tracing"]
    for path, cluster in _clusters(spec):
        if cluster.get("authentication", {}).get("type") == "oauth":
            why = "v1 has type: custom instead, with sasl.jaas.config in its config; write it by hand"
            yield lines.not_converted(cluster, "authentication", f"{path}.authentication", why)
            del cluster["authentication"]


def _unused(spec: Any, lines: _KeyLines) -> Iterator[NotConverted]:
    """Clusters outside of all mirrors: v1 has clusters within mirrors alone."""
    used = {mirror.get(field) for mirror in spec["mirrors"] for field in ("sourceCluster", "targetCluster")}
    for number, one in enumerate(spec["clusters"]):
        if one["alias"] not in used | {spec["connectCluster"]}:
            path = f"spec.clusters[{number}]"
            yield lines.not_converted(
                one,
                "alias",
                f"{path}.alias",
                f"all mirrors leave out {one['alias']}, and v1 has clusters within mirrors alone",
            )


def _to_v1beta2(spec: Any) -> Iterator[NotConverted]:
    target = spec.pop("target")
    config = {key: target.pop(field) for field, (key, _) in STORAGE.items() if field in target}
    target["config"] = {**target.get("config", {}), **config}
    clusters = {}
    for mirror in spec["mirrors"]:
        source = mirror.pop("source")
        clusters[source["alias"]] = source
        mirror.insert(0, "targetCluster", target["alias"])
        mirror.insert(0, "sourceCluster", source["alias"])
    spec.insert(0, "clusters", [*clusters.values(), target])
    spec.insert(0, "connectCluster", target["alias"])
    rack = spec.get("rack")
    if rack is not None and "envVarName" in rack:
        yield NotConverted("spec.rack", "envVarName", "v1beta2 knows topologyKey alone")
        del spec["rack"]
    elif rack is not None:
        rack.pop("type", None)


def _clusters(spec: Any) -> Iterator[tuple[str, Any]]:
    yield "spec.target", spec["target"]
    for number, mirror in enumerate(spec["mirrors"]):
        yield f"spec.mirrors[{number}].source", mirror["source"]
