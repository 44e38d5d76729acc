"""The resource of a canary: Strimzi's `KafkaMirrorMaker2` with a single mirror, under names of its own.

The resource has its own name, group and topics of a worker. The source has the canary's alias, so copies and positions
have names of their own, too. References to Secrets and ConfigMaps stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from twinlog.config.strimzi.document import KIND
from twinlog.config.strimzi.fields import STORAGE
from twinlog.model.types import Alias
from twinlog.ops.canary.canary_file import OWN_SETTINGS, CanaryChoice, chosen_settings, is_own, topic_patterns
from twinlog.ops.convert.secrets import secret_name
from twinlog.ops.convert.to_strimzi import dumped

_LEFT_OUT = ("checkpointConnector", "heartbeatConnector", "groupsPattern", "groupsExcludePattern")
_OF_GROUPS = ("sync.group.offsets.", "emit.heartbeats.")
_STATE = ("state", "pause", "listOffsets", "alterOffsets")
_SUFFIX = {
    "groupId": "",
    "configStorageTopic": "-configs",
    "statusStorageTopic": "-status",
    "offsetStorageTopic": "-offsets",
}
_BESIDE = ("Secret", "ConfigMap")


def aliases_of_resource(path: Path) -> tuple[Alias, ...]:
    """The aliases of all clusters in the resource at `path`."""
    spec = _resource(_documents(path))["spec"]
    clusters = [*spec.get("clusters", ()), *(mirror.get("source", {}) for mirror in spec["mirrors"])]
    clusters.append(spec.get("target", {}))
    return tuple(Alias(one["alias"]) for one in clusters if "alias" in one)


def canary_resource(path: Path, choice: CanaryChoice) -> str:
    """The canary of a checked resource at `path`; Secrets and ConfigMaps in the same file stay beside it."""
    documents = list(_documents(path))
    resource = _resource(iter(documents))
    name = secret_name(f"{resource['metadata']['name']}-{choice.alias}")
    kept = {key: resource["metadata"][key] for key in ("namespace", "labels") if key in resource["metadata"]}
    resource["metadata"] = {"name": name, **kept}
    resource.pop("status", None)
    spec = resource["spec"]
    mirror = next(one for one in spec["mirrors"] if _ends(spec, one) == (choice.flow.source, choice.flow.target))
    spec["mirrors"] = [_mirror(mirror, choice)]
    storage = {field: f"{name}{suffix}" for field, suffix in _SUFFIX.items()}
    if "target" in spec:
        spec["target"].update(storage)
    else:
        _name_clusters(spec, choice, storage)
    beside = [one for one in documents if one.get("kind") in _BESIDE]
    return dumped(resource, *beside)


def _documents(path: Path) -> Iterator[Any]:
    for document in YAML().load_all(path.read_text("utf-8")):
        yield from document.get("items", ()) if "items" in document else (document,)


def _resource(documents: Iterator[Any]) -> Any:
    return next(one for one in documents if one.get("kind") == KIND)


def _ends(spec: Any, mirror: Any) -> tuple[str, str]:
    if "target" in spec and "source" in mirror:
        return mirror["source"]["alias"], spec["target"]["alias"]
    return mirror["sourceCluster"], mirror.get("targetCluster", spec.get("connectCluster"))


def _mirror(mirror: Any, choice: CanaryChoice) -> Any:
    """The mirror with the canary's topics, less the connectors that touch groups and heartbeats."""
    if "source" in mirror:
        mirror["source"]["alias"] = choice.alias
    else:
        mirror["sourceCluster"] = choice.alias
    for field in _LEFT_OUT:
        mirror.pop(field, None)
    mirror["topicsPattern"] = topic_patterns(choice)
    connector = mirror["sourceConnector"] = mirror["sourceConnector"] or {}
    for field in _STATE:
        connector.pop(field, None)
    config = connector["config"] = connector.get("config") or {}
    for key in [key for key in config if is_own(key, prefix=choice.prefix)]:
        del config[key]
    own = {key: value for key, value in OWN_SETTINGS.items() if not key.startswith(_OF_GROUPS)}
    config.update({**own, **chosen_settings(choice)})
    return mirror


def _name_clusters(spec: Any, choice: CanaryChoice, storage: dict[str, str]) -> None:
    """Rename the source of v1beta2, and give the worker names of its own; other clusters are left out."""
    target = spec["connectCluster"]
    kept = [one for one in spec["clusters"] if one["alias"] in (choice.flow.source, choice.flow.target, target)]
    for one in kept:
        if one["alias"] == target:
            one.setdefault("config", {}).update({STORAGE[field][0]: value for field, value in storage.items()})
        if one["alias"] == choice.flow.source:
            one["alias"] = choice.alias
    spec["clusters"] = kept
