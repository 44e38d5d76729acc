"""Every key known, by the place it may be written at.

To turn a key on in a later version, change its `effect` in the file that lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from twinlog.config.keys.client import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from twinlog.config.keys.connect import CONNECT_KEYS, ONE_FLOW_KEYS
from twinlog.config.keys.connector import CHECKPOINT_KEYS, SOURCE_KEYS
from twinlog.config.keys.key import Effect, Key, Level, UpdateMode
from twinlog.config.keys.process import PROCESS_KEYS
from twinlog.config.keys.security import SECURITY_KEYS
from twinlog.config.keys.twinlog import TWINLOG_KEYS, TWINLOG_WORKER_KEYS
from twinlog.config.keys.worker import WORKER_KEYS
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import FailedRecordSettings
from twinlog.settings.written import written


class KeyTable:
    """Keys of a place; a key ending in `.*`, or a key per topic, covers every name below it that lacks an entry of its
    own."""

    def __init__(self, keys: Iterable[Key]) -> None:
        exact: dict[str, Key] = {}
        self._below: list[Key] = []
        for key in keys:
            if key.name.endswith(".*"):
                self._below.append(key)
            else:
                exact[key.name] = key
        self.exact: Mapping[str, Key] = MappingProxyType(exact)
        self._per_topic = tuple(key for key in exact.values() if key.per_topic)

    def find_key(self, name: str) -> Key | None:
        """The key called `name`, or the key that covers it."""
        found = self.exact.get(name)
        if found is not None:
            return found
        below = next((key for key in self._below if name.startswith(key.name[:-1])), None)
        return below or next((key for key in self._per_topic if key.pattern_in(name) is not None), None)


_CLIENT = {key.name: key for key in ADMIN_KEYS}
_NOT_IN_WORKER_FILE = frozenset({"clusters", "dedicated.mode.enable.internal.rest"})


def worker_file_keys() -> tuple[Key, ...]:
    """The keys of a worker's file except the security keys, each with its effect there."""
    process = (key for key in PROCESS_KEYS if key.name not in _NOT_IN_WORKER_FILE)
    found = {key.name: _in_worker_file(key) for key in (*process, *WORKER_KEYS)}
    return (*found.values(), *TWINLOG_KEYS, *TWINLOG_WORKER_KEYS)


def _in_worker_file(key: Key) -> Key:
    here = key.in_worker_file
    if here is not None:
        effect = Effect.WORKS if here.works else key.effect
        return replace(key, effect=effect, doc=here.doc or key.doc, default=here.default or key.default)
    return replace(key, effect=_CLIENT[key.name].effect) if key.name in _CLIENT else key


CONNECTOR_KEYS = (*SOURCE_KEYS, *CHECKPOINT_KEYS, *CONNECT_KEYS, *ONE_FLOW_KEYS, *TWINLOG_KEYS)

SECURITY = KeyTable(SECURITY_KEYS)
PROCESS = KeyTable(PROCESS_KEYS)
CONNECTOR = KeyTable(CONNECTOR_KEYS)
WORKER = KeyTable((*WORKER_KEYS, *SECURITY_KEYS))
WORKER_FILE = KeyTable((*SECURITY_KEYS, *worker_file_keys()))
"""The keys of a Connect worker's file, besides the settings of clients; twinlog's keys there are for every
connector."""

WORKER_CLIENT = KeyTable((*ADMIN_KEYS, *WORKER_KEYS, *SECURITY_KEYS))
"""Settings of a worker's own client, which are in its file under their plain names."""

CONSUMER = KeyTable((*CONSUMER_KEYS, *SECURITY_KEYS))
PRODUCER = KeyTable((*PRODUCER_KEYS, *SECURITY_KEYS))
ADMIN = KeyTable((*ADMIN_KEYS, *SECURITY_KEYS))

CLIENTS: Mapping[str, KeyTable] = MappingProxyType({"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN})
"""Key tables of the clients, by the word in front of their keys."""

TOP_LEVEL_CONNECTOR_NAMES = frozenset(
    key.name for key in CONNECTOR_KEYS if key.level is Level.FLOW and not key.name.endswith(".*")
) | (frozenset(SECURITY.exact) - {"bootstrap.servers"})
"""Names that count for every flow when they are at top level (the definitions of the three connectors)."""

PER_TOPIC_PREFIXES = tuple(f"{key.name}." for key in CONNECTOR_KEYS if key.per_topic)
"""The texts in front of a topic pattern; a key with this prefix counts at top level for every flow."""

NEW_NAMES: Mapping[str, str] = MappingProxyType({key.old_name: key.name for key in CONNECTOR_KEYS if key.old_name})
"""Names of keys before Kafka 2.7, each with the present name."""

FAILED_RECORDS = "failed_records"
"""The field of a flow's settings that keys of `FailedRecordSettings` fill."""

ALL_KEYS: tuple[Key, ...] = (
    *PROCESS_KEYS,
    *CONNECTOR_KEYS,
    *SECURITY_KEYS,
    *CONSUMER_KEYS,
    *PRODUCER_KEYS,
    *ADMIN_KEYS,
    *WORKER_KEYS,
)

RESERVED_ALIASES = frozenset(
    {key.name.split(".")[0] for key in ALL_KEYS if key.level in {Level.PROCESS, Level.FLOW, Level.SECURITY}}
    | {"consumer", "producer", "admin"}
) - {"source", "target"}
"""First words of keys at top level: an alias of that name would make them mean two things.

`source` and `target` are left out: keys below an alias are always distinct from `source.cluster.alias`, and many files
use them.
"""


@cache
def live_fields() -> Mapping[str, tuple[UpdateMode, UpdateMode]]:
    """The fields of a flow's settings that a running process takes over.

    The first mode is for a changed value, the second for a value that appears or disappears.

    The second differs from the first if the key switches work on and off.
    """
    found: dict[str, tuple[UpdateMode, UpdateMode]] = {}
    for name, how in written(FlowSettings).items():
        value = _live(how.key)
        if value is not None and how.key != "enabled":
            found[name] = (value, _live(how.switch) or value)
    found[FAILED_RECORDS] = (UpdateMode.PAUSE, UpdateMode.PAUSE)
    return MappingProxyType(found)


def _live(name: str) -> UpdateMode | None:
    """How another value of the key is taken over while the process runs; None if it needs a restart."""
    key = CONNECTOR.exact.get(name)
    return None if key is None or key.update is UpdateMode.RESTART else key.update


def fields_of(key: Key) -> tuple[str, ...]:
    """The fields of a flow's settings that a key fills, or switches on and off."""
    name = NEW_NAMES.get(key.name, key.name)
    found = tuple(field for field, how in written(FlowSettings).items() if name in (how.key, how.switch))
    of_failed = any(how.key == name for how in written(FailedRecordSettings).values())
    return (*found, FAILED_RECORDS) if of_failed else found
