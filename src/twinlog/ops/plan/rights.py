"""Which permissions a flow would lack, by what each cluster reports that the login may do (KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twinlog.errors import RefusedError
from twinlog.mirror.topics.changes import Changes
from twinlog.mirror.topics.internal_topics import exact_maps, internal_topics, offset_syncs, positions
from twinlog.model.acls import Operation
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.ops.inventory.contents import Inventory
from twinlog.ops.plan.flow_plan import Problem
from twinlog.settings.flow import FlowSettings

Lacks = Callable[[str, str, str], RefusedError]
"""`ClusterClient.lacks`: operation, resource and purpose to the sentence that a run would log."""


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster of a flow: what is known of it, and how a missing permission is worded."""

    inventory: Inventory
    lacks: Lacks

    def topics(self, operation: Operation, names: Iterable[TopicName], purpose: str) -> list[Problem]:
        """A problem where the login may not do that with some of the topics that it sees."""
        lacking = [name for name in names if self.inventory.may(operation, name) is False]
        return [self._problem(operation, f"topic {listed(lacking)}", purpose)] if lacking else []

    def cluster(self, operation: Operation, purpose: str) -> list[Problem]:
        """A problem where the login may not do that with the cluster."""
        if self.inventory.may(operation) is not False:
            return []
        return [self._problem(operation, "the cluster", purpose)]

    def _problem(self, operation: Operation, resource: str, purpose: str) -> Problem:
        return Problem("permission", str(self.lacks(operation.name, resource, purpose)))


def missing_rights(
    flow: FlowSettings, source: Side, target: Side, changes: Changes, acls: Sequence[object] | None
) -> list[Problem]:
    """What a run would be refused, of topics that are there; what it may create the clusters are asked when it is
    validated. `acls` are those to create, None where rights are not carried over."""
    mirrored = [pair.source.name for pair in changes.pairs]
    remotes = [pair.remote for pair in changes.pairs]
    own = [topic.name for topic in internal_topics(flow) if topic.cluster == flow.target]
    read_back = {positions(flow).name, exact_maps(flow).name} if flow.copies else set()
    found = [
        *source.topics(Operation.READ, mirrored, "copying them"),
        *source.topics(Operation.DESCRIBE_CONFIGS, mirrored, "reading its settings"),
        *target.topics(Operation.WRITE, remotes, "copying to remote topics"),
        *target.topics(Operation.DESCRIBE_CONFIGS, remotes, "knowing the largest batch it takes"),
        *target.topics(Operation.WRITE, own, "storing what the flow knows"),
        *target.topics(Operation.READ, read_back, "going on where the flow stood"),
        *target.topics(Operation.DESCRIBE_CONFIGS, own, "checking that it is compacted"),
    ]
    if flow.copies and flow.emit_offset_syncs:
        holder = source if flow.offset_syncs_location == "source" else target
        found += holder.topics(Operation.WRITE, [offset_syncs(flow).name], "writing offset syncs")
    if acls is not None:
        found += source.cluster(Operation.DESCRIBE, "reading its ACLs")
        found += target.cluster(Operation.DESCRIBE, "reading its ACLs")
    if acls:
        found += target.cluster(Operation.ALTER, "creating ACLs")
    return found
