"""Workers and connectors as files: a worker's properties, and each connector as the body of a POST to its REST API."""

from __future__ import annotations

import json
from collections.abc import Iterator

import javaproperties

from twinlog.ops.convert.model import CONVERTER, Mirrors, NotConverted, Output, WorkerSpec, raw
from twinlog.ops.convert.secrets import SecretStore

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def to_connectors(mirrors: Mirrors, vault: SecretStore) -> Output:
    """Each worker gets a folder if there are several workers."""
    vault.reserve_names(mirrors.providers)
    files: dict[str, str] = {}
    not_converted: list[NotConverted] = list(mirrors.not_converted)
    for worker in mirrors.workers:
        source = worker.connectors[0].source if worker.connectors else worker.target
        folder = f"{source}--{worker.target}/" if len(mirrors.workers) > 1 else ""
        bodies = {
            f"{folder}{one.name.replace('->', '--')}.json": {
                "name": one.name,
                "config": {
                    key: vault.without_secrets(key, entry, _alias(key, one.source, one.target))
                    for key, entry in one.entries.items()
                },
                **({"initial_state": one.state} if one.state != "RUNNING" else {}),
            }
            for one in worker.connectors
        }
        files[f"{folder}worker.properties"] = "".join(_lines(worker, vault))
        files |= {name: json.dumps(body, indent=2, ensure_ascii=False) + "\n" for name, body in bodies.items()}
    return Output(files, vault.kept, tuple(not_converted), mirrors.remarks)


def _alias(key: str, source: str, target: str) -> str:
    return source if key.startswith("source.") else target


def _lines(worker: WorkerSpec, vault: SecretStore) -> Iterator[str]:
    values = {key: vault.without_secrets(key, entry, worker.target) for key, entry in worker.entries.items()}
    for key in ("key.converter", "value.converter"):
        values.setdefault(key, CONVERTER)
    if "bootstrap.servers" not in values:
        found = next((one.entries.get("target.cluster.bootstrap.servers") for one in worker.connectors), None)
        values |= {} if found is None else {"bootstrap.servers": raw(found)}
    values |= vault.providers(values.get("config.providers", ""))
    for key, value in values.items():
        yield property_line(key, value)


def property_line(key: str, value: str) -> str:
    """A line of a properties file, as Java reads it."""
    text = "".join(_ESCAPES.get(one) or (one if " " <= one <= "~" else javaproperties.escape(one)) for one in value)
    return f"{javaproperties.escape(key)} = {chr(92) * value.startswith(' ')}{text}\n"
