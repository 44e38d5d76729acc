"""Messages about consumer groups and ACLs."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_TO_DO, UNAFFECTED, Area, Message, Page

_GROUP = Area(
    name="GROUP",
    title="Consumer groups",
    about=("twinlog translates committed offsets into checkpoints, and commits offsets of idle groups on the target."),
    look=(
        "twinlog groups mm2.properties",
        "twinlog status mm2.properties",
    ),
    messages=(
        Message(
            "TW-GROUP-01",
            "A group lacks checkpoints",
            "info",
            lines=("`no checkpoints for group G: ...`",),
            meaning="The flow leaves the group untranslated.",
            impact="On the target the group begins by its `auto.offset.reset`.",
            mend=(
                "To translate the group, change the key in the line: `groups`, `groups.exclude`, `topics` or "
                "`topics.exclude`."
            ),
            in_line=False,
        ),
        Message(
            "TW-GROUP-02",
            "A group lacks checkpoints in a topic",
            "warning",
            lines=("`no checkpoints in topic T for group G: it is not copied, or ...`",),
            meaning="The target lacks an equivalent of the group's committed offset.",
            impact=(
                "After a failover the group begins this topic by its `auto.offset.reset`: it repeats or skips records."
            ),
            mend="Follow the reason in the line.",
        ),
        Message(
            "TW-GROUP-03",
            "A group is in use on the target",
            "info",
            lines=("`group G is in use on west, its offsets there are left alone`",),
            meaning="The group has members on the target, or another program commits its offsets there.",
            impact=UNAFFECTED,
            mend="If the group should be idle there, stop its members.",
            in_line=False,
        ),
        Message(
            "TW-GROUP-04",
            "The topic of checkpoints was deleted",
            "warning",
            lines=("`topic east.checkpoints.internal was gone; its checkpoints are written again`",),
            meaning="",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-GROUP-05",
            "Earlier checkpoints are unreadable",
            "warning",
            lines=(
                ("`earlier checkpoints are unreadable, and every group gets new checkpoints, which may be older: ...`"),
            ),
            meaning="The login lacks READ on the topic of checkpoints.",
            impact="Records are unaffected. New checkpoints may be older: a group that moves now repeats more records.",
            mend="Grant READ on the topic in the line, and restart the process.",
        ),
        Message(
            "TW-GROUP-06",
            "The way back of groups is closed",
            "warning",
            lines=("`offsets of groups in topics that came from WEST stay untranslated: ...`",),
            meaning="The login lacks READ on the positions of the opposite flow.",
            impact="After a move, groups that read copies of the opposite flow begin by their `auto.offset.reset`.",
            mend="Grant READ on the topic in the line.",
        ),
        Message(
            "TW-GROUP-07",
            "Offset syncs are unreadable",
            "warning",
            lines=(
                "`only what twinlog has copied itself is translated: ...`",
                (
                    "`the offset syncs are unreadable, so only records that twinlog itself copied can be translated: "
                    "...`"
                ),
            ),
            meaning="The login lacks READ on the topic of offset syncs, which has the syncs of MirrorMaker 2.",
            impact="Offsets in records that MirrorMaker 2 copied stay untranslated; all other offsets are exact.",
            mend="If groups still have these offsets, grant READ on the topic of offset syncs.",
        ),
        Message(
            "TW-GROUP-08",
            "The begin of copies is found by content",
            "warning",
            lines=("`where copies begin is found by content alone: ...`",),
            meaning=(
                "`twinlog verify` cannot read the offset syncs, and compares content to find the first copied record."
            ),
            impact="The comparison reads more records; its result is unaffected.",
            mend="Grant READ on the topic of offset syncs.",
        ),
        Message(
            "TW-GROUP-09",
            "A group lacks committed offsets",
            "error",
            lines=("`GROUP: no committed offset in TOPICS`",),
            meaning="`twinlog translate` finds no offset of the group in the named topics.",
            impact=UNAFFECTED,
            mend="Correct the name of the group or of the topic.",
            look=("twinlog groups mm2.properties",),
        ),
        Message(
            "TW-GROUP-10",
            "The source leaves out groups",
            "warning",
            lines=("`partitions of ... that lack a leader: N; the source leaves out their groups ...`",),
            meaning="From `twinlog groups`: the source lists no group whose coordinator is away.",
            impact="The table lacks these groups.",
            mend="Start the brokers with the replicas of `__consumer_offsets`, and run the command again.",
            look=("twinlog groups mm2.properties",),
        ),
        Message(
            "TW-GROUP-11",
            "A returned cluster lacks the end of a move of groups",
            "warning",
            lines=("`a later switchover moved GROUPS back to the source ...: run COMMAND again to end it`",),
            meaning=(
                "From `twinlog groups`: the target was lost during the later switchover, so the journal on the target "
                "still has the move before. The table leaves that move out."
            ),
            impact="The groups are on the source, and continue there.",
            mend="Run the named command again: it ends the move before, and fences the returned cluster.",
            look=("twinlog groups mm2.properties",),
        ),
    ),
)

_ACL = Area(
    name="ACL",
    title="ACLs of topics",
    about="With `sync.topic.acls.enabled` twinlog copies ACLs of topics to the target.",
    look=("twinlog diff mm2.properties --from east --to west",),
    messages=(
        Message(
            "TW-ACL-01",
            "The target refuses an ACL",
            "warning",
            lines=("`the target refuses the ACL ACL: ...`",),
            meaning=(
                "The target lacks an authorizer, or the login lacks ALTER on the cluster. The line quotes the target."
            ),
            impact="Records are copied. Consumers of the remote topic may lack rights.",
            mend="Grant ALTER on the cluster to twinlog's login, or set `sync.topic.acls.enabled = false`.",
        ),
        Message(
            "TW-ACL-02",
            "ACLs for all topics are left out",
            "warning",
            lines=("`the ACLs of EAST for all topics (*) are left out: where topics keep their names ...`",),
            meaning="The flow keeps topic names: on the target, ACLs for `*` would count for every topic there.",
            impact="Records are copied. The target lacks the rights of these ACLs.",
            mend="If every topic of the target should have these ACLs, create them by hand.",
        ),
        Message(
            "TW-ACL-03",
            "ACLs are left out",
            "info",
            lines=(
                "`the ACLs of EAST for all topics (*) are left out; for rights on all remote topics ...`",
                "`ACLs of EAST for prefixes of names are left out, as in MirrorMaker 2: TOPICS`",
                "`cluster EAST has no authorizer, so there are no ACLs to carry over; ...`",
            ),
            meaning="As MirrorMaker 2, twinlog copies ACLs of single topics only.",
            impact="Records are copied. The target lacks the rights of these ACLs.",
            mend="If consumers on the target need these ACLs, create them by hand.",
        ),
        Message(
            "TW-ACL-04",
            "Rights are unknown",
            "warning",
            lines=(
                "`unknown: OPERATIONS on ... of EAST for User:NAME: the login lacks the right to read ACLs, ...`",
                "`the login lacks the right to read ACLs of EAST, so denials and rights on later names ...`",
            ),
            meaning="`twinlog acls --missing` cannot see whether the principal has these rights.",
            impact=UNAFFECTED,
            mend="Grant DESCRIBE on the cluster to the login, or apply the printed lines; then run the command again.",
            look=("twinlog acls mm2.properties --missing",),
        ),
        Message(
            "TW-ACL-05",
            "Other logins may write to copies",
            "warning",
            lines=("`cannot keep other writers from remote topics, trying again: ...`",),
            meaning="`twinlog.fence.writers` is on, and the target has no ACLs, refuses them, or lets `User:*` write.",
            impact="Records are copied. A record of another login holds its partition.",
            mend="Follow the line, or set `twinlog.fence.writers = false`.",
            look=("twinlog plan mm2.properties",),
        ),
        Message(
            "TW-ACL-06",
            "A broker may still refuse producers",
            "warning",
            lines=("`a broker has yet to confirm that the fence of TOPICS is gone`",),
            meaning="The controller has removed the ACLs of `twinlog.fence.writers`; a broker is slow or silent.",
            impact="This broker may refuse records of producers until it has read the change.",
            mend="Look after the brokers of the target. A refused producer may send its records again.",
        ),
        Message(
            "TW-ACL-07",
            "A flow has left its fence",
            "warning",
            lines=("`cannot open topics that a killed flow has fenced, trying again: the fence of FLOW keeps ...`",),
            meaning=(
                "The process of a flow with `twinlog.fence.writers` was killed, and the flow has left the file, or is "
                "disabled without heartbeats: no process removes its ACLs."
            ),
            impact="The named logins are refused on the named topics.",
            mend="Run the commands that `twinlog acls FILE --missing` prints, or the flow once more.",
            look=("twinlog acls mm2.properties --missing",),
        ),
    ),
)

PAGE = Page(
    "groups",
    "Consumer groups and ACLs",
    (
        _GROUP,
        _ACL,
    ),
)
