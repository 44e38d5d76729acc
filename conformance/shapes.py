"""What of a body counts: a shape sorts, keys by name, or leaves out by a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable

from conformance.call import Json

Shape = Callable[[Json], Json]


def settled(body: Json, version: str) -> Json:
    """Every body: what is another in each run or each release and says nothing about the API."""
    if isinstance(body, str) and body.startswith("<html"):
        return f"<page: {body.partition('<title>')[2].partition('</title>')[0]}>"
    if isinstance(body, str):
        return body.replace(version, "<kafka>")
    if isinstance(body, list):
        return [settled(one, version) for one in body]
    if not isinstance(body, dict):
        return body
    return {key: _settled_member(key, value, version) for key, value in body.items()}


def _settled_member(key: str, value: Json, version: str) -> Json:
    if key == "trace" and isinstance(value, str):
        return "<trace>"
    if key == "commit" and isinstance(value, str):
        return "<commit>"
    if key == "last_modified" and isinstance(value, int):
        return "<time>"
    return settled(value, version)


def as_written(body: Json) -> Json:
    """A connector that was just written: which tasks it has by then is a matter of moments, as is their order where it
    is restarted with them.
    """
    if not isinstance(body, dict) or not isinstance(body.get("tasks"), list):
        return body
    if body.keys() == {"name", "config", "tasks", "type"}:
        return {**body, "tasks": ["<tasks>"]}
    return {**body, "tasks": sorted(body["tasks"], key=lambda task: task["id"])}


def in_order(body: Json) -> Json:
    """A list whose order a worker does not promise."""
    if not isinstance(body, list):
        return body
    return sorted(body, key=lambda one: json.dumps(one, sort_keys=True))


def topics_in_order(body: Json) -> Json:
    """The answer of `/topics`."""
    if not isinstance(body, dict):
        return body
    return {
        name: {**one, "topics": sorted(one["topics"])} if isinstance(one, dict) and "topics" in one else one
        for name, one in body.items()
    }


def offsets_in_order(body: Json) -> Json:
    """The answer of `/offsets`."""
    if not isinstance(body, dict) or "offsets" not in body:
        return body
    by_partition = sorted(body["offsets"], key=lambda one: json.dumps(one["partition"], sort_keys=True))
    return {**body, "offsets": by_partition}


def plugin_keys(body: Json) -> Json:
    """The keys that a plugin describes, by name, and their order apart: one key more is one difference then."""
    if not isinstance(body, list):
        return body
    return {"order": [key["name"] for key in body], "keys": _by_name((key["name"], key) for key in body)}


def key_names(body: Json) -> Json:
    """The keys that a plugin describes, by name alone."""
    return [key["name"] for key in body] if isinstance(body, list) else body


def validated(body: Json) -> Json:
    """All of an answer of `/validate`, by key; what a key means stands where the plugin describes it, too."""

    def brief(entry: Json) -> Json:
        definition = entry["definition"]
        kept = definition and {key: value for key, value in definition.items() if key not in ("documentation", "name")}
        return {"definition": kept, "value": entry["value"]}

    shaped = _validated(body, lambda entry: True, brief)
    return {**shaped, "order": [_name(entry) for entry in body["configs"]]} if "configs" in shaped else shaped


def values_of(*names: str) -> Shape:
    """Of an answer of `/validate` what is said about some keys' values, and about all that have errors."""

    def shape(body: Json) -> Json:
        return _validated(
            body,
            lambda entry: _name(entry) in names or bool((entry["value"] or {}).get("errors")),
            lambda entry: entry["value"],
        )

    return shape


errors_only = values_of()


def _validated(body: Json, keep: Callable[[Json], bool], entry_shape: Shape) -> Json:
    if not isinstance(body, dict) or "configs" not in body:
        return body
    configs = _by_name((_name(entry), entry_shape(entry)) for entry in body["configs"] if keep(entry))
    return {**body, "configs": configs}


def _by_name(entries: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Connect may name a key twice."""
    found: dict[str, Json] = {}
    for name, entry in entries:
        found[f"{name} (again)" if name in found else name] = entry
    return found


def _name(entry: Json) -> str:
    return str((entry["definition"] or entry["value"])["name"])


def members(*names: str) -> Shape:
    """Of an object only these members: of all loggers those that a call set."""

    def shape(body: Json) -> Json:
        return {key: value for key, value in body.items() if key in names} if isinstance(body, dict) else body

    return shape


def of_classes(names: Collection[str]) -> Shape:
    """Of a list of plugins those of these classes."""

    def shape(body: Json) -> Json:
        return [one for one in body if one["class"] in names] if isinstance(body, list) else body

    return shape


def bare_message(body: Json) -> Json:
    """A message without the names of exceptions in front of it, which depend on what the worker was asked before."""
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return {**body, "message": re.sub(r"^([\w.]+Exception: )+", "", body["message"])}
    return body


def beginning(length: int) -> Shape:
    """The first characters of a message; what follows are names of the worker's own classes."""

    def shape(body: Json) -> Json:
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            return {**body, "message": body["message"][:length]}
        return body

    return shape
