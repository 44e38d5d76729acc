"""Checks a resource against the table of fields: finds wrong fields, and accepted fields that are ignored here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from twinlog.config.properties import PropertyEntry
from twinlog.config.strimzi.document import DocumentNode
from twinlog.config.strimzi.fields import CONNECTOR_FORBIDDEN, FIELDS, GROUP, ONLY_OLD, Field, Version, forbidden
from twinlog.errors import ConfigProblem

_WORDS = {"map": "a map of fields", "list": "a list", "string": "a text", "integer": "a whole number"} | {
    "boolean": "true or false"
}
_CLUSTER = re.compile(r"^spec\.(target|clusters\[\]|mirrors\[\]\.source)\.config$")
_CONNECTOR = re.compile(r"^spec\.mirrors\[\]\.\w+Connector\.config$")


@dataclass(slots=True)
class ResourceCheck:
    """The result of a check; `named` are paths and lines of fields that are ignored here."""

    file: str
    version: Version = "v1beta2"
    problems: list[ConfigProblem] = field(default_factory=list)
    named: list[tuple[str, int]] = field(default_factory=list)
    paths: dict[tuple[int, str], str] = field(default_factory=dict)
    """The places of the settings that fields and configs make, by line and key."""

    def entry(self, key: str, value: str, item: DocumentNode) -> PropertyEntry:
        """A setting that `item` makes."""
        self.paths[item.line, key] = item.path
        return PropertyEntry(key, value, self.file, item.line, value)

    def wrong(self, item: DocumentNode, found: str, expected: str) -> None:
        """Keep a problem with a value."""
        problem = ConfigProblem(self.file, item.line, item.path, found, expected)
        if str(problem) not in map(str, self.problems):
            self.problems.append(problem)

    def warning(self) -> list[str]:
        """The warning that names every field that is ignored here."""
        if not self.named:
            return []
        listed = ", ".join(f"{path} (line {line})" for path, line in self.named)
        return [f"{self.file}: these fields have no effect here: {listed}"]


def check_resource(resource: DocumentNode, file: str) -> ResourceCheck:
    """Check all fields of `resource`, each against its own rules; the targets of references are left out."""
    found = ResourceCheck(file)
    written = resource.get("apiVersion")
    group, _, version = (written.text if written is not None else "").rpartition("/")
    if written is not None and (group != GROUP or version not in {"v1", "v1beta2"}):
        # The rules depend on the version, and are unknown for an unknown version.
        found.wrong(written, repr(written.text), f"{GROUP}/v1 or {GROUP}/v1beta2")
        return found
    found.version = cast(Version, version if version in {"v1", "v1beta2"} else "v1beta2")
    _check_map(resource, "", found, named=False)
    return found


def _children(table_path: str, version: Version) -> Mapping[str, Field]:
    prefix = f"{table_path}." if table_path else ""
    return {
        path.removeprefix(prefix): one
        for path, one in FIELDS.items()
        if path.startswith(prefix) and "." not in path.removeprefix(prefix) and not path.endswith("[]")
        if version in one.versions
    }


def _check_map(item: DocumentNode, table_path: str, found: ResourceCheck, *, named: bool) -> None:
    for key, line in item.repeated:
        path = f"{item.path}.{key}".lstrip(".")
        found.problems.append(ConfigProblem(found.file, line, path, "written twice", "each field once"))
    known = _children(table_path, found.version)
    for name, child in item.children.items():
        if name in known:
            _check_value(child, f"{table_path}.{name}".lstrip("."), known[name], found, named=named)
        else:
            found.wrong(child, "an unknown field", _instead(name, table_path, known, found.version))
    for name, one in known.items():
        if found.version in one.required and item.get(name) is None and not (named and item.kind == "null"):
            path = f"{item.path}.{name}".lstrip(".")
            what = _WORDS.get(one.type, "a value") if not one.choices else " or ".join(one.choices)
            found.problems.append(ConfigProblem(found.file, item.line, path, "missing", what))


def _instead(name: str, table_path: str, known: Mapping[str, Field], version: Version) -> str:
    other: Version = "v1" if version == "v1beta2" else "v1beta2"
    if name in _children(table_path, other):
        return f"a field of {version}; {name} is one of {other}, and `twinlog convert` translates"
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"a known field (did you mean {close[0]}?)"
    return "one of " + ", ".join(sorted(known))


def _check_value(item: DocumentNode, table_path: str, one: Field, found: ResourceCheck, *, named: bool) -> None:
    if item.kind == "null":
        return
    if one.named is not None and not named:
        found.named.append((item.path, item.line))
        named = True
    allowed = {one.type} | ({"integer", "number", "boolean"} if one.type == "string" and named else set())
    if item.kind not in allowed:
        expected = _WORDS[one.type]
        if one.type == "string" and item.kind in {"integer", "number", "boolean"}:
            expected = f'a text, "{item.text}" in quotation marks'
        found.wrong(item, _shown(item), expected)
        return
    if item.kind == "map":
        if one.free:
            _check_free(item, table_path, found)
        else:
            _check_map(item, table_path, found, named=named)
        return
    if item.kind == "list":
        below = FIELDS[f"{table_path}[]"]
        for each in item.items:
            _check_value(each, f"{table_path}[]", below, found, named=named)
        return
    choices = [word for word in one.choices if found.version == "v1beta2" or word not in ONLY_OLD]
    if choices and item.text not in choices:
        found.wrong(item, repr(item.text), " or ".join(choices))
    elif one.minimum is not None and int(item.text, 0) < one.minimum:
        found.wrong(item, item.text, f"at least {one.minimum}")
    elif one.pattern is not None and not re.search(one.pattern, item.text):
        found.wrong(item, repr(item.text), f"a text that matches {one.pattern}")


def _check_free(item: DocumentNode, table_path: str, found: ResourceCheck) -> None:
    """A map of settings: their values are checked with the values of the flows."""
    cluster, connector = _CLUSTER.match(table_path), _CONNECTOR.match(table_path)
    for name, child in item.children.items():
        if cluster and forbidden(name, found.version, storage=cluster[1] == "target"):
            # Strimzi drops it and warns.
            found.named.append((child.path, child.line))
        elif connector and name in CONNECTOR_FORBIDDEN:
            found.named.append((child.path, child.line))
        elif (cluster or connector) and child.kind in {"map", "list"}:
            found.wrong(child, _shown(child), "a text, a number, true or false")


def _shown(item: DocumentNode) -> str:
    return f"a {item.kind}" if item.kind in {"map", "list"} else f"the {item.kind} {item.text!r}"
