"""The rights of commands that ask the clusters, and of a switchover."""

from __future__ import annotations

from twinlog.model.acls import AclOperation
from twinlog.ops.acls.resources import (
    cluster,
    control,
    flow_group,
    followed_groups,
    follows,
    journal,
    journal_ids,
    mirrored_topics,
    notes_of_fences,
    offsets_of_groups,
    progress,
    reloads,
    remote_topics,
    replayed_topics,
    seeded_positions,
    syncs_topic,
)
from twinlog.ops.acls.rights import (
    BOTH_LOGINS,
    OF_SYNCS,
    RightRow,
    Side,
    copies,
    elects_process,
    reads_source,
    syncs_on,
)

_READ, _WRITE, _CREATE, _ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER
_DESCRIBE = AclOperation.DESCRIBE
_SETTINGS, _CHANGE = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

_SIDES: tuple[Side, ...] = ("source", "target")

_PROGRESS_ON = "topics `mm2-` (prefix), `heartbeats`, `east.checkpoints.internal`"

COMMAND_ROWS = (
    RightRow(
        "source",
        "mirrored topics",
        (_DESCRIBE,),
        "names, partitions, ends of logs",
        mirrored_topics,
        reads_source,
        uses=("plan", "diff", "status", "groups", "translate", "topics"),
    ),
    RightRow(
        "source",
        "mirrored topics",
        (_READ,),
        "records to compare or to copy",
        mirrored_topics,
        copies,
        BOTH_LOGINS,
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
    RightRow("source", "cluster", (_DESCRIBE,), "ACLs", cluster, reads_source, uses=("plan", "diff", "audit")),
    RightRow(
        "source",
        OF_SYNCS,
        (_READ,),
        "how far MirrorMaker 2 has copied",
        syncs_topic,
        syncs_on("source"),
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
        reads_source,
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
        BOTH_LOGINS,
        uses=("replay",),
    ),
    RightRow("target", "cluster", (_DESCRIBE,), "ACLs", cluster, reads_source, uses=("plan", "diff", "audit")),
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
        elects_process,
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
        "target, cluster",
        (_DESCRIBE, _SETTINGS),
        "whether producers have WRITE there",
        cluster,
        copies,
        uses=("switchover",),
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
