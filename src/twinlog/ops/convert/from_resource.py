"""Strimzi's resource as a worker with its connectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twinlog.config.strimzi.document import DocumentNode, read_documents
from twinlog.config.strimzi.resource import resource_of
from twinlog.ops.convert.model import ConnectorSpec, Mirrors, NotConverted, WorkerSpec

_SAID = {"replicas", "connectCluster", "clusters", "target", "mirrors", "rack"}
_CONNECTOR_ONLY = {"version", "autoRestart", "listOffsets", "alterOffsets"}


def mirrors_of_resource(path: Path) -> Mirrors:
    """Return the mirrors that the resource defines; its Secrets stay references. Raises ConfigError."""
    documents = read_documents(path)
    resource = resource_of(documents)
    target = resource.connectors[0].target if resource.connectors else "target"
    connectors = tuple(
        ConnectorSpec(one.name, one.kind, one.source, one.target, one.entries, one.state) for one in resource.connectors
    )
    not_converted = tuple(_without_form(documents.resource.children["spec"], documents.file))
    remarks = tuple(warning for warning in resource.warnings if "no effect here" not in warning)
    return Mirrors((WorkerSpec(target, resource.worker, connectors),), not_converted, remarks)


def _without_form(spec: DocumentNode, file: str) -> Iterator[NotConverted]:
    """Fields that only a resource has."""
    for name, item in spec.children.items():
        if name not in _SAID or item.path.endswith("rack.topologyKey"):
            yield NotConverted(f"{file}:{item.line}", item.path, "only a resource has this")
    mirrors = spec.get("mirrors")
    for mirror in mirrors.items if mirrors is not None else ():
        for name, connector in mirror.children.items():
            for field in _CONNECTOR_ONLY & set(connector.children) if name.endswith("Connector") else ():
                item = connector.children[field]
                yield NotConverted(f"{file}:{item.line}", item.path, "only a resource has this")
