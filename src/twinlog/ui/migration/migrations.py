"""The migrations of a console: what both clusters have, the draft, its plan, its file, and the process that runs it."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config import load
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import ConfigError, OptionError, RefusedError, RequestError
from twinlog.kafka.admin.cluster import both_clusters
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.topics.checks import common_broker
from twinlog.mirror.topology.plugins import group_filter_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.inventory import Content, Inventory, read_inventory
from twinlog.ops.plan.flow_plan import FlowPlan
from twinlog.ops.plan.planner import FlowPlanner
from twinlog.settings.flow import FlowSettings
from twinlog.ui.migration.draft import MOST_REPLICAS, MigrationDraft
from twinlog.ui.migration.migration_run import MigrationRun, write_file
from twinlog.ui.sources import ConsoleSources

MOST = 20
"""Migrations that a console remembers; a further migration forgets the oldest."""

RATE = 50e6
"""Bytes a second of the network, for the estimate of a plan; that of `twinlog plan`."""

_FILE = "mm2.properties"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic of the source that can be mirrored; `bytes` is None if sizes are unreadable."""

    name: TopicName
    partitions: int
    records: int
    bytes: int | None
    there: bool
    """Whether the target has a topic of this name."""


@dataclass(frozen=True, slots=True)
class FoundClusters:
    """The content of both clusters that a migration can move."""

    topics: tuple[FoundTopic, ...]
    left_out: int
    groups: tuple[GroupId, ...]
    acls: int | None
    """The ACLs of the source; None without an authorizer, or if they are unreadable."""
    unread: tuple[str, ...]
    source_brokers: int
    target_brokers: int


@dataclass(slots=True)
class Migration:
    """A migration; `plan` and `file` belong to the newest draft, `run` to the draft of its start."""

    id: str
    draft: MigrationDraft
    found: FoundClusters
    plan: FlowPlan | None = None
    file: Path | None = None
    run: MigrationRun | None = None


class MigrationStore:
    """The migrations of a console; files are written into `home`."""

    def __init__(self, sources: ConsoleSources, home: Path) -> None:
        self.home = home
        self._sources = sources
        self._lock = threading.Lock()
        self._migrations: OrderedDict[str, Migration] = OrderedDict()
        self._shown: dict[str, FlowsOfFile] = {}
        """The flows of the last process for each name of a flow, as the pages show them."""

    def find(self, migration_id: str) -> Migration:
        """The migration of this id. Raises RequestError 404."""
        found = self._migrations.get(migration_id)
        if found is None:
            raise RequestError(404, "The migration is unknown: begin again, the console remembers the last 20.")
        return found

    def begin_migration(self, draft: MigrationDraft) -> Migration:
        """Read both clusters. Raises ConfigError, ClusterError, and RefusedError, also for twice the same cluster."""
        flow = flows_of(draft)[0]
        found = self.read_clusters(flow)
        here, there = (max(1, min(MOST_REPLICAS, count)) for count in (found.source_brokers, found.target_brokers))
        made = Migration(secrets.token_urlsafe(12), replace(draft, source_replicas=here, target_replicas=there), found)
        with self._lock:
            self._migrations[made.id] = made
            while len(self._migrations) > MOST:
                oldest = next(iter(self._migrations))
                if self._migrations[oldest].run is not None:
                    self._migrations.move_to_end(oldest)
                    if all(one.run is not None for one in self._migrations.values()):
                        break
                    continue
                del self._migrations[oldest]
        return made

    def make_plan(self, migration: Migration, draft: MigrationDraft) -> None:
        """Plan the draft; both clusters stay as they are.

        Raises ConfigError, ClusterError, RefusedError, and RequestError 409 while a process runs the earlier draft.
        """
        if migration.run is not None:
            migration.run.require_end()
        plan = self.read_plan(flows_of(draft))
        with self._lock:
            if migration.run is not None:
                migration.run.require_end()
            migration.draft, migration.plan, migration.file = draft, plan, None

    def read_clusters(self, flow: FlowSettings) -> FoundClusters:
        """The content of both clusters of a flow. Raises ClusterError and RefusedError."""
        return _look(flow)

    def read_plan(self, flows: Sequence[FlowSettings]) -> FlowPlan:
        """The plan of the first flow. Raises ClusterError and RefusedError."""
        with FlowPlanner(flows[0], flows, connect_s=LOOK_CONNECT_S) as planner:
            return planner.plan(RATE)

    def list_migrations(self) -> list[Migration]:
        """All migrations that the console remembers, the newest first."""
        with self._lock:
            return list(reversed(self._migrations.values()))

    def keep_file(self, migration: Migration, digest: str) -> Path:
        """Write the file of the newest draft, readable by its owner only, beside earlier files.

        Raises RequestError 409 if the draft has another digest, or the folder refuses the file.
        """
        with self._lock:
            return self._file_of(migration, digest)

    def _file_of(self, migration: Migration, digest: str) -> Path:
        if migration.draft.digest != digest:
            raise RequestError(409, "The plan has changed since this page was shown: look at the new plan first.")
        if migration.file is None:
            migration.file = write_file(self.home, migration.draft)
        return migration.file

    def run(self, migration: Migration, digest: str) -> None:
        """Run the file of the newest draft in a process beside the console; its flow joins the pages, or replaces the
        flow of an ended process.

        Raises RequestError 409 if the draft has another digest, if a file of the console has a flow of this name, while
        a process runs a flow of this name, and if the process fails to start.
        """
        with self._lock:
            draft, before = migration.draft, migration.run
            for one in self._migrations.values():
                if one.run is not None and one.run.draft.flow == draft.flow:
                    one.run.require_end()
            flows, shown = FlowsOfFile(flows_of(draft)), self._shown.get(draft.flow)
            try:
                self._sources.require_unique(flows, shown)
            except OptionError:
                raise RequestError(409, f"The console shows a flow {draft.flow} already.") from None
            path = self._file_of(migration, digest)
            found = migration.run = MigrationRun.begin(draft, path, flows)
            if before is not None:
                before.close()
            self._sources.show_file(flows, shown)
            self._shown[draft.flow] = flows
        _LOG.info("process %d runs %s; its log is %s", found.process.pid, path, found.log)

    def stop_run(self, migration: Migration) -> None:
        """End the process of a migration in order. Raises RequestError 409 if no process runs."""
        run = migration.run
        if run is None or run.code is not None:
            raise RequestError(409, f"No process runs the migration {migration.draft.flow}.")
        run.ask_end()
        run.wait_end()

    def forget_migration(self, migration: Migration) -> None:
        """Drop a migration: its flow leaves the pages, and its file stays. Raises RequestError 409 while its process
        runs."""
        with self._lock:
            run = migration.run
            if run is not None:
                run.require_end()
                run.close()
                if self._shown.get(run.draft.flow) is run.shown:
                    self._sources.hide_file(self._shown.pop(run.draft.flow))
            self._migrations.pop(migration.id, None)

    def close(self) -> None:
        """End the processes in order: what they copied stays, and their next start continues there."""
        running = [one.run for one in self._migrations.values() if one.run is not None]
        for run in running:
            run.ask_end()
        for run in running:
            run.wait_end()


def flows_of(draft: MigrationDraft) -> list[FlowSettings]:
    """The flows of a draft, the flow of the migration first. Raises ConfigError, whose problems name the keys."""
    with tempfile.TemporaryDirectory(prefix="twinlog-draft-") as home:
        path = Path(home, _FILE)
        path.touch(0o600)
        path.write_text(draft.text(), encoding="utf-8")
        try:
            flows = list(load(path).flows)
        except ConfigError as error:
            problems = [replace(one, file=_FILE) for one in error.problems]
            raise ConfigError(problems) from None
    return sorted(flows, key=lambda flow: flow.name != draft.flow)


def _look(flow: FlowSettings) -> FoundClusters:
    topology, takes_group = topology_of(flow), group_filter_of(flow).accepts
    source, target = both_clusters(flow)
    try:
        source.connect(LOOK_CONNECT_S)
        target.connect(LOOK_CONNECT_S)
        broker = common_broker(source, target)
        if broker is not None:
            raise RefusedError(
                f"{flow.source} and {flow.target} are the same cluster (broker {broker}): give the addresses of two",
                message_id="TW-CLUSTER-03",
            )
        parts = Content.LOGS | Content.SIZES | Content.ACLS | Content.GROUPS
        here = read_inventory(source, parts, wanted=lambda name: topology.refusal(name) is None)
        there = read_inventory(target, Content(0))
    finally:
        source.close()
        target.close()
    topics = _topics(here, there, [name for name in sorted(here.topics) if topology.refusal(name) is None])
    groups = sorted(group for group in here.groups if takes_group(group))
    return FoundClusters(
        tuple(topics),
        len(here.topics) - len(topics),
        tuple(groups),
        None if here.acls is None else len(here.acls),
        here.unread,
        len(here.brokers),
        len(there.brokers),
    )


def _topics(here: Inventory, there: Inventory, names: Sequence[TopicName]) -> list[FoundTopic]:
    records: dict[TopicName, int] = defaultdict(int)
    sizes: dict[TopicName, int] = defaultdict(int)
    for where, log in here.logs.items():
        records[where.topic] += log.offsets
        sizes[where.topic] += 0 if here.sizes is None else here.sizes.get(where, 0)
    return [
        FoundTopic(
            name,
            here.topics[name].topic.partitions,
            records[name],
            None if here.sizes is None else sizes[name],
            name in there.topics,
        )
        for name in names
    ]
