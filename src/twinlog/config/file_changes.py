"""Compares a file with the running configuration of a process: changes that the process can take over, and changes that
need a restart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from twinlog.config.keys.key import Key, Level, UpdateMode
from twinlog.config.keys.scope import KeyScope, KeyScopes
from twinlog.config.keys.table import CONNECTOR, fields_of, live_fields
from twinlog.config.load import LoadedFile, MirrorConfig
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.entries import ParsedFile
from twinlog.config.text.explain import HIDDEN
from twinlog.config.text.values import ValueRefusedError, parse_value
from twinlog.model.types import Alias
from twinlog.settings.flow import CustomClass, FlowSettings
from twinlog.settings.transform import FailedRecordSettings
from twinlog.settings.written import key_of


def merged(running: FlowSettings, written: FlowSettings) -> FlowSettings:
    """Return the settings to run a flow with, merged from the running and the written settings; both are enabled, or
    both disabled."""
    live = {name: getattr(written, name) for name in live_fields()}
    failed = {one.name: getattr(written.failed_records, one.name) for one in fields(FailedRecordSettings)}
    transform = None if running.transform is None else replace(running.transform, **failed)
    return replace(running, **live, transform=transform, class_settings=_class_settings(running, written))


def heartbeats_only(running: FlowSettings, written: FlowSettings) -> FlowSettings:
    """Return the settings of a flow that has been disabled; it reaches its target as it did when it copied."""
    return replace(
        written,
        consumer=running.consumer,
        producer=running.producer,
        source_admin=running.source_admin,
        target_admin=running.target_admin,
        worker_group_id=running.worker_group_id,
    )


def differs(one: FlowSettings, other: FlowSettings, fields: Iterable[str]) -> bool:
    """Whether some of these fields have different values; the line of a class is ignored."""
    return any(_plain(getattr(one, name)) != _plain(getattr(other, name)) for name in fields)


def reaches_others(one: FlowSettings, other: FlowSettings) -> Collection[str]:
    """The clusters that the two would reach in another way: other servers, another login or other clients."""
    sides = {"source": ("consumer", "source_admin"), "target": ("producer", "target_admin")}
    return [getattr(one, side) for side, clients in sides.items() if differs(one, other, clients)]


def _plain(value: Any) -> Any:
    return value.path if isinstance(value, CustomClass) else value


def _class_settings(running: FlowSettings, written: FlowSettings) -> tuple[tuple[str, str], ...]:
    """The configuration of a class of the user's: keys that need a restart keep their values, and so do the class's own
    keys."""
    if not running.class_settings:
        return ()
    live = {
        name: value
        for name, value in written.class_settings
        if (key := CONNECTOR.find_key(name)) is not None
        and key.update_mode not in (UpdateMode.RESTART, UpdateMode.NOTHING)
    }
    kept = {
        name: value
        for name, value in running.class_settings
        if (key := CONNECTOR.find_key(name)) is None or key.update_mode in (UpdateMode.RESTART, UpdateMode.NOTHING)
    }
    return tuple(sorted({**kept, **live}.items()))


Flows = Mapping[str, FlowSettings]

OTHER = "the text behind its reference has changed"
CLIENTS = ("consumer", "producer", "source_admin", "target_admin")
_OF_CLIENTS = frozenset({Level.SECURITY, Level.CONSUMER, Level.PRODUCER, Level.ADMIN})
_BEATING = ("emit_heartbeats_interval_s", "heartbeats_replication_factor", "target_admin")


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key whose value has changed, `before` and `after` in a form fit for display; None if it is missing.

    `place` is FILE:LINE, or the file alone for a removed key. `flows` are the flows that the change concerns; it is
    empty if the change concerns the process, or only disabled flows.
    """

    key: str
    place: str
    before: str | None
    after: str | None
    takes: UpdateMode
    flows: tuple[str, ...] = ()

    def __str__(self) -> str:
        now = "is gone from the file" if self.after is None else f"= {self.after}"
        return f"{self.place}: {self.key} {now} ({'not written' if self.before is None else self.before} before)"


@dataclass(frozen=True, slots=True)
class RunningFile:
    """The running part of a file: its flows, and the entries by which they run, by their keys.

    Keys that need a restart have the entries that the process began with.
    """

    config: MirrorConfig
    entries: Mapping[str, PropertyEntry]

    @classmethod
    def of(cls, loaded: LoadedFile) -> RunningFile:
        """A file that a process has just begun with."""
        return cls(loaded.config, _entries(loaded.parsed))


@dataclass(frozen=True, slots=True)
class FileChange:
    """The changes of a file.

    It names flows that copy: flows that continue with new settings, flows that begin, flows that end, and flows that
    wait for a restart before they begin, each with the reason. `running` is the state of the process after it took the
    change over.
    """

    keys: tuple[KeyChange, ...]
    changed: tuple[str, ...]
    begun: tuple[str, ...]
    ended: tuple[str, ...]
    waiting: Mapping[str, str]
    running: RunningFile

    def select_keys(self, *how: UpdateMode) -> tuple[KeyChange, ...]:
        """The keys that are taken over so."""
        return tuple(change for change in self.keys if change.takes in how)

    @property
    def same(self) -> bool:
        """Whether all flows stay as they are."""
        return not (self.changed or self.begun or self.ended)


def compare(running: RunningFile, loaded: LoadedFile) -> FileChange:
    """Return the changes for a process that runs a version of a file, and has read another version."""
    return _Comparison(running, loaded).find_changes()


class _Comparison:
    def __init__(self, running: RunningFile, loaded: LoadedFile) -> None:
        self._running = running
        self._new = loaded.config
        self._entries = _entries(loaded.parsed)
        self._file = loaded.parsed.file
        self._old_aliases = running.config.clusters
        self._gone = [alias for alias in self._old_aliases if alias not in self._new.clusters]
        self._aliases: tuple[Alias, ...] = (*self._new.clusters, *self._gone)
        self._scopes = KeyScopes(self._aliases)
        self._flows = _by_name(running.config.flows)
        self._written = _by_name(self._new.flows)

    def find_changes(self) -> FileChange:
        pairs = list(self._pairs())
        keys = [self._key_change(before, after, scope) for before, after, scope in pairs]
        keys += self._referred(keys)
        waiting = self._waiting(keys, [scope for _, _, scope in pairs])
        flows = self._wanted(waiting)
        running = RunningFile(
            replace(
                self._running.config,
                flows=tuple(sorted(flows.values(), key=lambda flow: not flow.enabled)),
                clusters=self._aliases,
                warnings=self._new.warnings,
                all_enabled=tuple(self._all_enabled(flows, waiting)),
            ),
            self._in_effect(keys),
        )
        copying, copied = ({name for name, flow in some.items() if flow.enabled} for some in (flows, self._flows))
        both = copying & copied
        return FileChange(
            tuple(keys),
            tuple(name for name in flows if name in both and flows[name] != self._flows[name]),
            tuple(name for name in flows if name in copying - copied),
            tuple(name for name in self._flows if name in copied - copying),
            waiting,
            running,
        )

    # -- keys

    def _pairs(self) -> Iterator[tuple[PropertyEntry | None, PropertyEntry | None, KeyScope]]:
        """The entries that have changed, in the order of the file; entries that are gone come last."""
        before = self._running.entries
        for key in [*self._entries, *(key for key in before if key not in self._entries)]:
            old, new = before.get(key), self._entries.get(key)
            entry = new or old
            assert entry is not None
            scope = self._scopes.scope_of(entry)
            if not _same(old, new, scope.key) and not self._is_of_gone(scope):
                yield old, new, scope

    def _is_of_gone(self, scope: KeyScope) -> bool:
        """Whether a key belongs to a removed cluster: then the change of `clusters` covers it."""
        return scope.alias in self._gone or any(alias in self._gone for alias in scope.flow or ())

    def _key_change(self, old: PropertyEntry | None, new: PropertyEntry | None, scope: KeyScope) -> KeyChange:
        entry = new or old
        assert entry is not None
        how, flows = self._judge(scope)
        place = self._file if new is None else new.place
        before, after = _shown(old, scope.key), _shown(new, scope.key)
        if before == after and before is not None:
            after = f"{after}, {OTHER}"
        return KeyChange(entry.key, place, before, after, how, flows)

    def _judge(self, scope: KeyScope) -> tuple[UpdateMode, tuple[str, ...]]:
        """How a key is taken over whose value has changed, and by which flows."""
        key = scope.key
        if scope.no_effect is not None:
            return UpdateMode.NOTHING, ()
        if self._is_new(scope):
            # It counts with the flow, or with the cluster.
            return UpdateMode.AT_ONCE, tuple(self._of_scope(scope))
        if key is None:
            # A class of the user's reads it, and was given all it needs when it was made.
            return UpdateMode.RESTART, tuple(self._of_scope(scope))
        if key.name == "clusters":
            return (UpdateMode.RESTART if self._gone else UpdateMode.AT_ONCE), ()
        how, fields = key.update_mode, _fields(key)
        if how is UpdateMode.RESTART and key.level is Level.PROCESS:
            return how, ()
        if key.name == "enabled":
            return how, tuple(name for name in self._of_scope(scope) if self._copies(name) != self._copied(name))
        flows = tuple(name for name in self._of_scope(scope) if self._differs(name, fields))
        # Another line may win, or the default is the same. A key that counts while the file is read leaves all fields
        # as they are.
        return (how, flows) if flows or (how is not UpdateMode.NOTHING and not fields) else (UpdateMode.NOTHING, ())

    def _differs(self, name: str, fields: Sequence[str]) -> bool:
        """Whether a flow of both versions has different values; of a disabled flow, heartbeats alone count."""
        if self._copies(name) and self._copied(name):
            return differs(*self._both(name), fields)
        there = name in self._flows and name in self._written and not (self._copies(name) or self._copied(name))
        return there and differs(*self._both(name), [one for one in fields if one in _BEATING])

    def _is_new(self, scope: KeyScope) -> bool:
        """Whether all flows or clusters of a key are still to begin."""
        if scope.flow is not None:
            name = "->".join(scope.flow)
            return self._copies(name) and not self._copied(name)
        return scope.alias is not None and scope.alias not in self._old_aliases

    def _of_scope(self, scope: KeyScope) -> list[str]:
        """The flows that a key concerns, by its place."""
        flows = {**self._flows, **self._written}
        if scope.flow is not None:
            return [name for name in flows if name == "->".join(scope.flow)]
        return [name for name, flow in flows.items() if scope.alias in (None, flow.source, flow.target)]

    def _copies(self, name: str) -> bool:
        return name in self._written and self._written[name].enabled

    def _copied(self, name: str) -> bool:
        return name in self._flows and self._flows[name].enabled

    def _both(self, name: str) -> tuple[FlowSettings, FlowSettings]:
        return self._flows[name], self._written[name]

    def _referred(self, keys: Sequence[KeyChange]) -> Iterator[KeyChange]:
        """Changed contents behind unchanged lines: key stores, token files, settings of a converter."""
        told = {name for change in keys if change.takes is UpdateMode.RESTART for name in change.flows}
        found: dict[str, list[str]] = {}
        for name in self._flows:
            if self._copies(name) and self._copied(name) and name not in told:
                old, new = self._both(name)
                for what in _unlike(merged(old, new), new):
                    found.setdefault(what, []).append(name)
        for what, flows in found.items():
            yield KeyChange(what, self._file, "as the process began with it", OTHER, UpdateMode.RESTART, tuple(flows))

    def _in_effect(self, keys: Sequence[KeyChange]) -> Mapping[str, PropertyEntry]:
        """The entries by which the process runs from now on."""
        before = self._running.entries
        waiting = {change.key for change in keys if change.takes is UpdateMode.RESTART}
        waiting |= {key for key, entry in before.items() if self._is_of_gone(self._scopes.scope_of(entry))}
        found = {key: entry for key, entry in self._entries.items() if key not in waiting}
        return found | {key: entry for key, entry in before.items() if key in waiting}

    # -- flows

    def _waiting(self, keys: Sequence[KeyChange], scopes: Sequence[KeyScope]) -> dict[str, str]:
        """Flows that would begin beside flows that keep older values until a restart, of clusters or names."""
        found: dict[str, str] = {}
        # The contents that a file refers to lack a line, and come last.
        restart = [(one, scope) for one, scope in zip(keys, scopes, strict=False) if one.takes is UpdateMode.RESTART]
        for name, flow in self._written.items():
            if name in self._flows and self._flows[name].enabled == flow.enabled:
                continue
            ends = (flow.source, flow.target)
            first = next(
                (one.key for one, scope in restart if scope.flow is None and scope.alias in (None, *ends)), None
            )
            if first is not None and not self._copied(name):
                found[name] = f"{first} has changed as well, and needs a restart"
        return found

    def _wanted(self, waiting: Mapping[str, str]) -> dict[str, FlowSettings]:
        """Every flow that is to run from now on, with its settings."""
        wanted: dict[str, FlowSettings] = {}
        for name, flow in self._written.items():
            old = self._flows.get(name)
            if name in waiting:
                if old is not None:
                    wanted[name] = old
            elif old is None or flow.enabled > old.enabled:
                wanted[name] = flow
            else:
                wanted[name] = merged(old, flow) if flow.enabled == old.enabled else heartbeats_only(old, flow)
        # A cluster that is gone needs a restart.
        kept = (flow for flow in self._flows.values() if {flow.source, flow.target}.intersection(self._gone))
        return wanted | _by_name(kept)

    def _all_enabled(self, flows: Flows, waiting: Mapping[str, str]) -> Iterator[FlowSettings]:
        """In the order of the file, which decides between flows that could write to the same topic."""
        before = _by_name(self._running.config.all_enabled)
        for flow in self._new.all_enabled:
            name = flow.name
            if name in waiting and name not in before:
                continue
            if name in flows:
                yield flows[name]
            else:
                # Of another host, whose process may have been restarted.
                yield merged(before[name], flow) if name in before else flow
        yield from (flow for flow in before.values() if {flow.source, flow.target}.intersection(self._gone))


def _by_name(flows: Iterator[FlowSettings] | Sequence[FlowSettings]) -> dict[str, FlowSettings]:
    return {flow.name: flow for flow in flows}


def _entries(parsed: ParsedFile) -> dict[str, PropertyEntry]:
    """By their keys as written, in the order of the file."""
    layers = chain([parsed.top], parsed.clusters.values(), parsed.flows.values())
    entries = sorted((entry for layer in layers for entry in layer.values()), key=lambda entry: entry.line or 0)
    return {entry.key: entry for entry in entries}


def _fields(key: Key) -> tuple[str, ...]:
    """The fields of a flow's settings in which a key may show; empty for a key that counts while the file is read."""
    if key.level in _OF_CLIENTS:
        return CLIENTS
    found = fields_of(key)
    return found or (("transform",) if key.update_mode is UpdateMode.RESTART else ())


def _unlike(running: FlowSettings, written: FlowSettings) -> Iterator[str]:
    """The running settings of a flow that differ from its file, by key."""
    yield from (f"{alias}.ssl.*, {alias}.sasl.*" for alias in reaches_others(running, written))
    for name in ("transform",):
        if differs(running, written, (name,)):
            yield f"{running.name}.{key_of(FlowSettings, name)}"


def _same(old: PropertyEntry | None, new: PropertyEntry | None, key: Key | None) -> bool:
    if old is None or new is None:
        return old is new
    if (old.value, old.unresolved) == (new.value, new.unresolved):
        return True
    if key is None or old.unresolved is not None or new.unresolved is not None:
        return False
    try:
        return parse_value(key, old.value) == parse_value(key, new.value)
    except ValueRefusedError:
        return False


def _shown(entry: PropertyEntry | None, key: Key | None) -> str | None:
    if entry is None:
        return None
    if key is None or key.secret:
        # A class of the user's may read secrets.
        return HIDDEN
    return entry.written if "${" in entry.written else entry.value
