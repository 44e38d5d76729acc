"""Reads the documents of a YAML file with the line of each value, and checks a resource against the table of fields.

The check finds wrong fields, and accepted fields that are ignored here.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from twinlog.config.properties import PropertyEntry
from twinlog.config.strimzi.fields import CONNECTOR_FORBIDDEN, FIELDS, GROUP, ONLY_OLD, Field, Version, forbidden
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind

KIND = "KafkaMirrorMaker2"
_CORRECT = "correct this line, so that kubectl apply --dry-run=client takes the file"
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class DocumentNode:
    """A value of the document with its place: `path` is written `spec.mirrors[0].source`."""

    node: Node
    path: str
    key: Node | None = None
    """The key of this value, if it is in a map."""

    @property
    def line(self) -> int:
        """The line of its key, or else that on which it begins, counted from 1."""
        return int((self.key or self.node).start_mark.line) + 1

    @property
    def kind(self) -> str:
        """map, list, string, integer, number, boolean or null."""
        if isinstance(self.node, MappingNode):
            return "map"
        if isinstance(self.node, SequenceNode):
            return "list"
        tag = str(self.node.tag).removeprefix(_TAG)
        return {"bool": "boolean", "int": "integer", "float": "number", "null": "null"}.get(tag, "string")

    @property
    def text(self) -> str:
        """A scalar as it is written; a boolean as `true` or `false`."""
        assert isinstance(self.node, ScalarNode)
        value = str(self.node.value)
        return value.lower() if self.kind == "boolean" else value

    @cached_property
    def children(self) -> Mapping[str, DocumentNode]:
        """The values of a map by key; empty for any other value. Of two equal keys the last."""
        if not isinstance(self.node, MappingNode):
            return {}
        found: dict[str, DocumentNode] = {}
        for key, value in self.node.value:
            name = str(key.value)
            if str(key.tag) == f"{_TAG}merge":
                for one in value.value if isinstance(value, SequenceNode) else (value,):
                    found = {**DocumentNode(one, self.path).children, **found}
                continue
            found[name] = DocumentNode(value, f"{self.path}.{name}" if self.path else name, key)
        return found

    @cached_property
    def repeated(self) -> tuple[tuple[str, int], ...]:
        """Keys that a map has more than once, with the line of each but the first."""
        seen: set[str] = set()
        found = []
        for key, _ in self.node.value if isinstance(self.node, MappingNode) else ():
            if key.value in seen:
                found.append((str(key.value), int(key.start_mark.line) + 1))
            seen.add(key.value)
        return tuple(found)

    @cached_property
    def items(self) -> tuple[DocumentNode, ...]:
        """The values of a list; empty for any other value."""
        if not isinstance(self.node, SequenceNode):
            return ()
        return tuple(DocumentNode(value, f"{self.path}[{number}]") for number, value in enumerate(self.node.value))

    def get(self, *names: str) -> DocumentNode | None:
        """The value below those keys; None if it is missing, or null."""
        found: DocumentNode | None = self
        for name in names:
            found = None if found is None else found.children.get(name)
        return None if found is None or found.kind == "null" else found

    def text_of(self, *names: str) -> str | None:
        """The text of a scalar below those keys; None if it is missing."""
        found = self.get(*names)
        return found.text if found is not None and isinstance(found.node, ScalarNode) else None


@dataclass(frozen=True)
class Documents:
    """The content of a file: the resource, and Secrets and ConfigMaps beside it."""

    file: str
    resource: DocumentNode
    others: tuple[DocumentNode, ...]


def read_documents(path: str | Path) -> Documents:
    """The documents of the file at `path`, including the documents of a `List`. Raises ConfigError."""
    file = str(path)
    try:
        text = Path(path).read_bytes().removeprefix(BOM_UTF8).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        found = str(getattr(error, "strerror", None) or error)
        problem = ConfigProblem(file, None, "", found, "a readable YAML file in UTF-8", MistakeKind.UNREADABLE_FILE)
        raise ConfigError([problem]) from None
    return parse_documents(text, file)


def parse_documents(text: str, file: str) -> Documents:
    """The same of text already read; `file` is the name for messages. Raises ConfigError."""
    try:
        nodes = [node for node in YAML(typ="rt", pure=True).compose_all(text) if node is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else int(mark.line) + 1
        found, expected = " ".join(str(error.problem or "broken YAML").split()), _CORRECT
        if "'\\t'" in found:
            found, expected = "a tab indents this line", "replace it by blanks, because YAML takes only these"
        problem = ConfigProblem(file, line, "", found, expected, MistakeKind.BROKEN_SYNTAX)
        raise ConfigError([problem]) from None
    except YAMLError as error:
        found = str(error).splitlines()[0]
        raise ConfigError([ConfigProblem(file, None, "", found, _CORRECT, MistakeKind.BROKEN_SYNTAX)]) from None
    items: list[DocumentNode] = []
    for node in nodes:
        item = DocumentNode(node, "")
        listed = item.get("items")
        items += [DocumentNode(one.node, "") for one in listed.items] if listed is not None else [item]
    found_resources = [item for item in items if item.text_of("kind") == KIND]
    if len(found_resources) != 1:
        others = ", ".join(repr(item.text_of("kind") or "a missing kind") for item in items) or "nothing"
        found = others if not found_resources else f"{len(found_resources)} resources of kind {KIND}"
        line = items[0].line if items else None
        raise ConfigError([ConfigProblem(file, line, "kind", found, f"a single resource of kind {KIND}")])
    resource = found_resources[0]
    return Documents(file, resource, tuple(item for item in items if item is not resource))


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

    def wrong(self, item: DocumentNode, found: str, expected: str, kind: MistakeKind | None = None) -> None:
        """Keep a problem with a value."""
        problem = ConfigProblem(self.file, item.line, item.path, found, expected, kind)
        if str(problem) not in map(str, self.problems):
            self.problems.append(problem)

    def warning(self) -> list[ConfigWarning]:
        """The warning that names every field that is ignored here."""
        if not self.named:
            return []
        listed = ", ".join(f"{path} (line {line})" for path, line in self.named)
        text = f"these fields are ignored here: {listed}"
        return [ConfigWarning(self.file, self.named[0][1], "", text, kind=MistakeKind.IGNORED_FIELDS)]


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
        found.problems.append(
            ConfigProblem(*(found.file, line, path, "written twice", "each field once"), MistakeKind.WRITTEN_TWICE)
        )
    known = _children(table_path, found.version)
    for name, child in item.children.items():
        if name in known:
            _check_value(child, f"{table_path}.{name}".lstrip("."), known[name], found, named=named)
        else:
            expected = _instead(name, table_path, known, found.version)
            found.wrong(child, "unknown field", expected, MistakeKind.UNKNOWN_KEY)
    for name, one in known.items():
        if found.version in one.required and item.get(name) is None and not (named and item.kind == "null"):
            path = f"{item.path}.{name}".lstrip(".")
            what = _WORDS.get(one.type, "a value") if not one.choices else " or ".join(one.choices)
            found.problems.append(ConfigProblem(found.file, item.line, path, "missing", what))


def _instead(name: str, table_path: str, known: Mapping[str, Field], version: Version) -> str:
    other: Version = "v1" if version == "v1beta2" else "v1beta2"
    if name in _children(table_path, other):
        return f"{name} is a field of {other}; `twinlog convert` translates the resource to {version}"
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"the fields here are {', '.join(sorted(known))}"


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
        found.wrong(item, f"{item.text} is too small", f"{one.minimum} or more")
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
