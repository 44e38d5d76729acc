"""YAML text as nodes that know their line and their path."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from twinlog.errors import ConfigError, ConfigProblem

KIND = "KafkaMirrorMaker2"
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
        raise ConfigError([ConfigProblem(file, None, "(file)", found, "a readable YAML file in UTF-8")]) from None
    return parse_documents(text, file)


def parse_documents(text: str, file: str) -> Documents:
    """The same of text already read; `file` is the name for messages. Raises ConfigError."""
    try:
        nodes = [node for node in YAML(typ="rt", pure=True).compose_all(text) if node is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else int(mark.line) + 1
        found = " ".join(str(error.problem or "broken YAML").split())
        raise ConfigError([ConfigProblem(file, line, "(file)", found, "YAML as kubectl takes it")]) from None
    except YAMLError as error:
        found = str(error).splitlines()[0]
        raise ConfigError([ConfigProblem(file, None, "(file)", found, "YAML as kubectl takes it")]) from None
    items: list[DocumentNode] = []
    for node in nodes:
        item = DocumentNode(node, "")
        listed = item.get("items")
        items += [DocumentNode(one.node, "") for one in listed.items] if listed is not None else [item]
    found_resources = [item for item in items if item.text_of("kind") == KIND]
    if len(found_resources) != 1:
        others = ", ".join(repr(item.text_of("kind") or "no kind") for item in items) or "nothing"
        found = others if not found_resources else f"{len(found_resources)} resources of kind {KIND}"
        line = items[0].line if items else None
        raise ConfigError([ConfigProblem(file, line, "kind", found, f"one resource of kind {KIND}")])
    resource = found_resources[0]
    return Documents(file, resource, tuple(item for item in items if item is not resource))
