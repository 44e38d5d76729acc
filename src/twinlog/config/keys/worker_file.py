"""What the keys of a Connect worker's own file do here, where that is something else than below an alias.

The file of a dedicated MirrorMaker 2 may hold the same keys, for the workers that it runs per flow (`keys_worker.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twinlog.config.keys.client import ADMIN_KEYS
from twinlog.config.keys.connector import TWINLOG_KEYS
from twinlog.config.keys.key import Effect, Key, KeyType, Level
from twinlog.config.keys.process import PROCESS_KEYS
from twinlog.config.keys.rest import REST_KEYS
from twinlog.config.keys.worker import WORKER_KEYS

_NO_CONVERSION = "Must be there, as in Connect; records are copied as bytes, and nothing converts their {}."
_TOPIC = "Settings with which the topic is created."

_WORKS: dict[str, str | None] = {
    "offset.storage.topic": "Topic that keeps the connectors' offsets, on the cluster that they write to.",
    "offset.storage.*": _TOPIC,
    "offset.storage.file.filename": "File that keeps the offsets of a standalone worker, in Connect's form.",
    "offset.flush.interval.ms": (
        "How often a standalone worker writes that file. In the topic a position is at most two seconds old."
    ),
    "config.storage.topic": "Topic that keeps the connectors' configurations, of one partition.",
    "config.storage.replication.factor": None,
    "config.storage.*": _TOPIC,
    "status.storage.topic": "Topic that keeps the states of connectors and tasks.",
    "status.storage.partitions": None,
    "status.storage.replication.factor": None,
    "status.storage.*": _TOPIC,
    "group.id": "Name of the workers that share the connectors; no consumer group may have it.",
    "client.id": "Name of the worker's own clients; `connect-` and the group's name where it is missing.",
    "key.converter": _NO_CONVERSION.format("keys"),
    "value.converter": _NO_CONVERSION.format("values"),
    "connect.protocol": "With `sessioned` requests between workers are signed; others are accepted unsigned.",
    "connector.client.config.override.policy": None,
    "connector.client.config.override.allowlist": None,
    "config.providers": "Names of the sources of ${name:path:key} references, in this file and in connectors.",
    "config.providers.*": (
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`; "
        "[other classes](security.md#secrets) may be listed."
    ),
    "session.timeout.ms": (
        "Milliseconds without a heartbeat after which a worker counts as lost (10000 in Connect), and others run its "
        "connectors; one is sent twice a second."
    ),
    "rebalance.timeout.ms": None,
    "inter.worker.key.generation.algorithm": None,
    "inter.worker.key.size": None,
    "inter.worker.key.ttl.ms": None,
    "inter.worker.signature.algorithm": None,
    "inter.worker.verification.algorithms": None,
    "ssl.client.auth": None,
    "topic.tracking.enable": None,
    "topic.tracking.allow.reset": None,
    "twinlog.driver.host": None,
    "twinlog.driver.bind.address": None,
    "twinlog.driver.port": None,
    "twinlog.unknown.keys": None,
    "twinlog.warm.up.enabled": (
        "Start Spark before the first connector comes, and prepare later starts of it in the background, as `twinlog "
        "warm-up` does, where that was never done."
    ),
}
"""Keys that work, with words about them where those of `keys_worker.py` do not fit."""

_DEFAULTS = {"session.timeout.ms": "6000", "twinlog.unknown.keys": "warn"}
"""What a killed worker ran has to run elsewhere within ten seconds, also with a file that names no session."""

_NO_EFFECT = {
    "heartbeat.interval.ms": "A worker sends a heartbeat twice a second.",
    "scheduled.rebalance.max.delay.ms": "What a lost worker ran is run elsewhere at once.",
    "worker.sync.timeout.ms": "A worker reads on until it has read all that the group's leader has written.",
    "worker.unsync.backoff.ms": "A worker that has not caught up goes on trying.",
    "header.converter": _NO_CONVERSION.format("headers").replace("Must be there, as in Connect; r", "R"),
    "topic.creation.enable": "Remote topics are created by the connectors themselves.",
}

_OWN = (
    Key(
        "twinlog.connector.classes",
        KeyType.LIST,
        "",
        "Python classes that connectors may name, as `package.module:Class`, or `package.module` for all of a module.",
        Level.PROCESS,
    ),
)

_NOT_HERE = frozenset({"clusters", "dedicated.mode.enable.internal.rest"})


def worker_file_keys() -> tuple[Key, ...]:
    """The keys of a worker's file but for those of security, each with what it does there."""
    process = (key for key in PROCESS_KEYS if key.name not in _NOT_HERE)
    found = {key.name: _here(key) for key in (*process, *WORKER_KEYS)}
    return (*found.values(), *TWINLOG_KEYS, *_OWN)


def _here(key: Key) -> Key:
    name = key.name
    if name in _WORKS:
        key = replace(key, effect=Effect.WORKS, doc=_WORKS[name] or key.doc, default=_DEFAULTS.get(name, key.default))
    elif name in _NO_EFFECT:
        key = replace(key, doc=_NO_EFFECT[name])
    elif name in _REST:
        key = replace(key, effect=Effect.WORKS)
    elif name in _CLIENT:
        key = replace(key, effect=_CLIENT[name].effect)
    return key


def _by_name(keys: Iterable[Key]) -> dict[str, Key]:
    return {key.name: key for key in keys}


_CLIENT = _by_name(ADMIN_KEYS)
_REST = _by_name(REST_KEYS)
