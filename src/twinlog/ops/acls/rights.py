"""The table of rights: each row is a right of a login on a cluster, with its reason and the commands that need it.

`docs/security.md` and `docs/switchover.md` have these rows as tables; `python -m twinlog.ops.acls.reference` writes
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from twinlog.model.acls import AclOperation
from twinlog.ops.acls.resources import (
    Places,
    cluster,
    control,
    flow_group,
    followed_groups,
    follows,
    journal,
    journal_ids,
    kept_small,
    mirror_maker_group,
    mirrored_topics,
    notes_of_fences,
    offsets_of_groups,
    own_topics,
    positions_of_way_back,
    progress,
    reads_way_back,
    reloads,
    remote_topics,
    replayed_topics,
    reports,
    seeded_positions,
    syncs_topic,
    transactions,
)
from twinlog.settings.flow import FlowSettings

Side = Literal["source", "target"]
Login = Literal["data", "admin"]
"""`data` reads or appends records: the consumer on the source, the producer on the target. `admin` does the rest."""

USES = (
    "run",
    "plan",
    "diff",
    "status",
    "groups",
    "translate",
    "topics",
    "reload",
    "log-level",
    "verify",
    "audit",
    "replay",
    "switchover",
)
"""The commands whose rights are known. `ops.acls.command` has the same list as text, to print its help at once."""

_SIDES: tuple[Side, ...] = ("source", "target")
_READ, _WRITE, _CREATE, _ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER
_DESCRIBE = AclOperation.DESCRIBE
_SETTINGS, _CHANGE = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


def copies(flow: FlowSettings) -> bool:
    """Whether the flow copies records."""
    return flow.copies


def _enabled(flow: FlowSettings) -> bool:
    return flow.enabled and flow.kind != "heartbeat"


def _groups_of_flow(flow: FlowSettings) -> bool:
    return flow.kind is None


def _syncs_on(side: Side) -> Callable[[FlowSettings], bool]:
    def there(flow: FlowSettings) -> bool:
        writes = flow.copies and flow.emit_offset_syncs
        return flow.enabled and flow.offset_syncs_location == side and (writes or follows(flow))

    return there


@dataclass(frozen=True, slots=True)
class RightRow:
    """Operations on resources of a side that the commands in `uses` need.

    `on` names the resources in the documents, for a flow east->west, and `why` is the purpose there. A flow needs the
    row if `when` is true. `logins` are the logins that use it. MirrorMaker 2 needs rows with `mm2`, too.
    """

    side: Side
    on: str
    operations: tuple[AclOperation, ...]
    why: str
    places: Places
    when: Callable[[FlowSettings], bool]
    logins: tuple[Login, ...] = ("admin",)
    uses: tuple[str, ...] = ("run",)
    mm2: bool = False


def _copies_transactions(flow: FlowSettings) -> bool:
    """Whether copies of transactions may keep their offsets."""
    return flow.copies and flow.may_keep_offsets and flow.consumer.isolation_level == "read_committed"


_BOTH: tuple[Login, ...] = ("data", "admin")
_OF_SYNCS = "topic `mm2-offset-syncs.west.internal`"

RUN_ROWS = (
    RightRow(
        "source",
        "mirrored topics",
        (_READ,),
        "reading, listing, offsets",
        mirrored_topics,
        _enabled,
        _BOTH,
        mm2=True,
    ),
    RightRow("source", "mirrored topics", (_SETTINGS,), "settings of remote topics", mirrored_topics, copies, mm2=True),
    RightRow(
        "source",
        "cluster",
        (_DESCRIBE,),
        "ACLs, unless `sync.topic.acls.enabled = false`",
        cluster,
        lambda flow: flow.copies and flow.sync_topic_acls_interval_s is not None,
        mm2=True,
    ),
    RightRow(
        "source",
        _OF_SYNCS,
        (_CREATE, _WRITE, _READ),
        "offset syncs (READ for translation by MirrorMaker 2's offset syncs), unless they are on the target",
        syncs_topic,
        _syncs_on("source"),
        _BOTH,
        mm2=True,
    ),
    RightRow(
        "source",
        _OF_SYNCS,
        (_SETTINGS, _CHANGE),
        "the topic's bounds, if another program or person made the topic; if these rights are missing, the topic stays "
        "unchanged",
        syncs_topic,
        lambda flow: flow.copies and flow.emit_offset_syncs and flow.offset_syncs_location == "source",
    ),
    RightRow(
        "source",
        "groups with checkpoints",
        (_DESCRIBE,),
        "committed offsets; the flow sees only groups with this right",
        followed_groups,
        follows,
        mm2=True,
    ),
    RightRow(
        "source",
        "topics `mm2-offsets.west.internal`, `mm2-twinlog-offsets.west.internal`",
        (_READ,),
        "only for groups that read copies of the target's topics, if `topics` matches these copies",
        positions_of_way_back,
        reads_way_back,
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_WRITE,),
        "appending; idempotent appending needs only this right",
        remote_topics,
        copies,
        ("data",),
        mm2=True,
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (AclOperation.DELETE,),
        "the first offset of a remote topic, with `twinlog.offsets = identical`",
        remote_topics,
        lambda flow: flow.copies and flow.may_keep_offsets,
        ("data",),
    ),
    RightRow(
        "target",
        "cluster",
        (_ALTER,),
        "markers at offsets without a record, with `twinlog.offsets = identical` and `isolation.level = "
        "read_committed`",
        cluster,
        _copies_transactions,
        ("data",),
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_READ, _SETTINGS),
        "reading the copies, and whether their topic is compacted, with `twinlog.proof`",
        remote_topics,
        lambda flow: flow.copies and any(flow.proof.values),
        ("data",),
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_READ,),
        "reading the records that arrived before a crash; committing offsets of groups",
        remote_topics,
        _enabled,
        _BOTH,
        mm2=True,
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_CREATE, _ALTER, _SETTINGS),
        "creating topics, adding partitions, reading the topics' limits",
        remote_topics,
        copies,
        mm2=True,
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_CHANGE,),
        "settings, unless `sync.topic.configs.enabled = false`",
        remote_topics,
        lambda flow: flow.copies and flow.sync_topic_configs_interval_s is not None,
        mm2=True,
    ),
    RightRow(
        "target",
        "cluster",
        (_DESCRIBE, _ALTER),
        "ACLs, unless `sync.topic.acls.enabled = false`",
        cluster,
        lambda flow: flow.copies and flow.sync_topic_acls_interval_s is not None,
        mm2=True,
    ),
    RightRow(
        "target",
        "cluster",
        (_DESCRIBE, _ALTER, _SETTINGS),
        "ACLs against other writers, with `twinlog.fence.writers = true`",
        cluster,
        lambda flow: flow.fences_writers,
    ),
    RightRow(
        "target",
        "topics `mm2-` (prefix)",
        (_CREATE, _WRITE, _READ, _SETTINGS),
        "positions, exact maps, progress, requests of `twinlog reload`, and requests about [single topics](topics.md)",
        own_topics,
        lambda flow: flow.kind != "heartbeat",
        _BOTH,
        mm2=True,
    ),
    RightRow(
        "target",
        "topics `mm2-` (prefix), `east.checkpoints.internal`, `heartbeats`",
        (_SETTINGS, _CHANGE),
        "bounds of topics that another program or person made; if these rights are missing, the topics stay unchanged",
        kept_small,
        lambda flow: True,
    ),
    RightRow(
        "target",
        "group `east-mm2`",
        (_READ,),
        "electing the process that runs the flow",
        flow_group,
        _groups_of_flow,
        mm2=True,
    ),
    RightRow(
        "target",
        "group `east-mm2`",
        (_DESCRIBE,),
        "with a `group.id` of its own, to see MirrorMaker 2: [wave by wave](canary.md#hand-over-wave-by-wave)",
        mirror_maker_group,
        lambda flow: flow.enabled and flow.has_own_group,
    ),
    RightRow(
        "target",
        "transactional ids `east-mm2-MirrorSourceConnector-` (prefix)",
        (_WRITE,),
        "exactly once, `preparing` too; for the logins of the producer and the admin client",
        transactions,
        lambda flow: flow.copies and flow.exactly_once != "disabled",
        _BOTH,
        mm2=True,
    ),
    RightRow(
        "target",
        "transactional ids `east-mm2-MirrorSourceConnector-` (prefix)",
        (_WRITE,),
        "aborted transactions, with `twinlog.offsets = identical` and `isolation.level = read_committed`",
        transactions,
        _copies_transactions,
        ("data",),
    ),
    RightRow(
        "target",
        "topics `east.checkpoints.internal`, `heartbeats`",
        (_CREATE, _WRITE, _READ),
        "checkpoints (READ to continue from the existing checkpoints), heartbeats",
        reports,
        lambda flow: True,
        mm2=True,
    ),
    RightRow(
        "target",
        "groups with checkpoints",
        (_READ,),
        "committing their offsets, with `sync.group.offsets.enabled`; READ on the remote topics too",
        followed_groups,
        lambda flow: follows(flow) and flow.sync_group_offsets_interval_s is not None,
        mm2=True,
    ),
)
"""The rights of a process that runs flows."""

_PROGRESS_ON = "topics `mm2-` (prefix), `heartbeats`, `east.checkpoints.internal`"

COMMAND_ROWS = (
    RightRow(
        "source",
        "mirrored topics",
        (_DESCRIBE,),
        "names, partitions, ends of logs",
        mirrored_topics,
        _enabled,
        uses=("plan", "diff", "status", "groups", "translate", "topics"),
    ),
    RightRow(
        "source",
        "mirrored topics",
        (_READ,),
        "records to compare or to copy",
        mirrored_topics,
        copies,
        _BOTH,
        uses=("verify", "audit", "replay"),
    ),
    RightRow(
        "source",
        "mirrored topics",
        (_SETTINGS,),
        "settings, and whether the topic is compacted",
        mirrored_topics,
        copies,
        uses=("plan", "diff", "verify", "audit", "replay"),
    ),
    RightRow("source", "cluster", (_DESCRIBE,), "ACLs", cluster, _enabled, uses=("plan", "diff", "audit")),
    RightRow(
        "source",
        _OF_SYNCS,
        (_READ,),
        "how far MirrorMaker 2 has copied",
        syncs_topic,
        _syncs_on("source"),
        uses=("plan", "status", "groups", "translate", "verify", "audit"),
    ),
    RightRow(
        "source",
        "groups with checkpoints",
        (_DESCRIBE,),
        "committed offsets",
        followed_groups,
        follows,
        uses=("plan", "diff", "groups", "audit"),
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_DESCRIBE,),
        "names, partitions, ends of logs",
        remote_topics,
        _enabled,
        uses=("plan", "diff", "status", "groups", "translate", "topics"),
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_READ,),
        "records to compare",
        remote_topics,
        copies,
        uses=("verify", "audit"),
    ),
    RightRow(
        "target",
        "topics `east.` (prefix)",
        (_SETTINGS,),
        "settings, and whether the topic is compacted",
        remote_topics,
        copies,
        uses=("plan", "diff", "verify", "audit"),
    ),
    RightRow(
        "target",
        "topics `east.TOPIC.replay`",
        (_CREATE, _READ, _WRITE, _SETTINGS),
        "the copies of a replay, READ to continue after an earlier run; `--into` has other names",
        replayed_topics,
        copies,
        _BOTH,
        uses=("replay",),
    ),
    RightRow("target", "cluster", (_DESCRIBE,), "ACLs", cluster, _enabled, uses=("plan", "diff", "audit")),
    RightRow(
        "source",
        "topics `mm2-twinlog-` (prefix)",
        (_READ,),
        "ACLs of fences",
        notes_of_fences,
        copies,
        uses=("audit",),
    ),
    RightRow(
        "target",
        _PROGRESS_ON,
        (_READ,),
        "positions, exact maps, progress, checkpoints, the last heartbeat",
        progress,
        lambda flow: True,
        uses=("plan", "status", "groups", "translate", "topics", "log-level", "verify", "audit"),
    ),
    RightRow(
        "target",
        "group `east-mm2`",
        (_DESCRIBE,),
        "which process runs the flow",
        flow_group,
        _groups_of_flow,
        uses=("plan", "status", "topics", "reload", "log-level", "audit"),
    ),
    RightRow(
        "target",
        "groups with checkpoints",
        (_DESCRIBE,),
        "their offsets there",
        followed_groups,
        follows,
        uses=("plan", "diff", "groups", "audit"),
    ),
    *(
        RightRow(
            side,
            "topic `mm2-twinlog-switchover.internal`",
            (_READ,),
            "groups that a switchover moved",
            journal,
            follows,
            uses=("plan", "groups", "audit"),
        )
        for side in _SIDES
    ),
    *(
        RightRow(
            side,
            "topic `__consumer_offsets`",
            (_DESCRIBE,),
            "whether a group has committed yet",
            offsets_of_groups,
            follows,
            uses=("plan", "audit"),
        )
        for side in _SIDES
    ),
    RightRow(
        "target",
        "topic `mm2-twinlog-control.east.internal`",
        (_CREATE, _WRITE),
        "requests about single topics, and for levels of the log; CREATE for the first request",
        control,
        copies,
        uses=("topics", "log-level"),
    ),
    RightRow(
        "target",
        "topic `mm2-twinlog-reload.internal`",
        (_CREATE, _READ, _WRITE),
        "requests to read a file again, and the answers",
        reloads,
        lambda flow: True,
        uses=("reload",),
    ),
)
"""The rights of commands that ask the clusters, in place of the rights of a run."""

SWITCHOVER_ROWS = (
    RightRow("source", "source, cluster", (_DESCRIBE, _ALTER), "`--fence acl`", cluster, copies, uses=("switchover",)),
    RightRow(
        "source",
        "source, cluster",
        (_SETTINGS, _CHANGE),
        "`--fence quota`; DESCRIBE_CONFIGS for `--fence acl`, too",
        cluster,
        copies,
        uses=("switchover",),
    ),
    RightRow(
        "source",
        "source, topic `mm2-offsets.west.internal`",
        (_CREATE, _WRITE),
        "`seed`",
        seeded_positions,
        copies,
        uses=("switchover",),
    ),
    *(
        row
        for side in _SIDES
        for row in (
            RightRow(
                side,
                "both, topic `mm2-twinlog-switchover.internal`",
                (_CREATE, _READ, _WRITE),
                "the journal; the source keeps the data to lift its fence",
                journal,
                copies,
                uses=("switchover",),
            ),
            RightRow(
                side,
                "both, transactional ids `mm2-twinlog-switchover-` (prefix)",
                (_WRITE,),
                "the journal; the source keeps the data to lift its fence",
                journal_ids,
                copies,
                uses=("switchover",),
            ),
        )
    ),
    RightRow(
        "target",
        "target, groups",
        (_READ,),
        "the commit of offsets; READ on the topics, too",
        followed_groups,
        follows,
        uses=("switchover",),
    ),
    RightRow(
        "target",
        "target, topics that producers will write to",
        (_CREATE, _READ),
        "`topics`, commits",
        mirrored_topics,
        copies,
        uses=("switchover",),
    ),
)
"""The rights of a switchover, in addition to the rights of a run."""

ROWS = (*RUN_ROWS, *COMMAND_ROWS, *SWITCHOVER_ROWS)
