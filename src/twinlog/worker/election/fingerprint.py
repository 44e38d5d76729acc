"""A short form of a flow's settings, sent with the group metadata, to find out whether two processes have the same.

Each setting has the name of its key and a hash of its value. Credentials, racks and the other clusters of the file are
left out: hosts may have their own, and a hash of a short password can be guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.flow import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    CustomClass,
    FlowSettings,
    ProducerSettings,
)
from twinlog.settings.written import key_of

Fingerprint = Mapping[str, str]
"""Hash of a value by the name of its key."""

_LEFT_OUT = frozenset(
    {
        *("source", "target", "aliases", "connector_name", "kind", "worker_group_id", "client_id", "sasl_username"),
        "client_rack",
    }
)

_NO_KEYS = frozenset({("consumer", "retries"), ("producer", "default_api_timeout_ms")})
"""Fields of a client that are without a key in its role."""

_OF_THE_CLUSTER = ("bootstrap.", "security.", "sasl.", "ssl.")
"""Keys of a client that are written for the whole cluster."""


def fingerprint(settings: FlowSettings) -> dict[str, str]:
    """The flow's settings by key, each as the first eight digits of a hash of its value.

    Keys of clients carry their prefix, as in `east.consumer.isolation.level`.
    """
    values: dict[str, list[str]] = {}
    for key, value in _flow(settings):
        values.setdefault(key, []).append(repr(value))
    return {key: hashlib.sha256("\n".join(found).encode()).hexdigest()[:8] for key, found in values.items()}


def differing(one: Fingerprint, other: Fingerprint) -> tuple[str, ...]:
    """The keys in which two processes differ, sorted; a key that a single process has counts as well."""
    return tuple(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def _flow(settings: FlowSettings) -> Iterator[tuple[str, Any]]:
    roles = {
        "consumer": (settings.source, "consumer"),
        "producer": (settings.target, "producer"),
        "source_admin": (settings.source, "admin"),
        "target_admin": (settings.target, "admin"),
    }
    for own in _read_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ConsumerSettings | ProducerSettings | AdminSettings):
            yield from _client(value, *roles[own.name])
        elif type(value) is FailedRecordSettings:
            for one in fields(FailedRecordSettings):
                yield key_of(FailedRecordSettings, one.name), getattr(value, one.name)
        else:
            # The line that names the class may well differ.
            yield key_of(FlowSettings, own.name), value.path if isinstance(value, CustomClass) else value


def _client(settings: Any, alias: str, role: str) -> Iterator[tuple[str, Any]]:
    for own in _read_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ClientSettings):
            yield from _client(value, alias, role)
            continue
        if (role, own.name) in _NO_KEYS:
            continue
        key = key_of(type(settings), own.name)
        yield f"{alias}.{key}" if key.startswith(_OF_THE_CLUSTER) else f"{alias}.{role}.{key}", value


def _read_fields(settings: Any) -> list[Field[Any]]:
    """Fields that may be shown and compared; secret fields are also absent from the repr."""
    return [own for own in fields(settings) if own.repr and own.name not in _LEFT_OUT]
