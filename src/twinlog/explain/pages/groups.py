"""Messages about consumer groups and ACLs."""

from __future__ import annotations

from twinlog.explain.message import UNAFFECTED, Area, Message, Page

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
            impact="The group begins on the target as a new group: by its `auto.offset.reset`.",
            mend=(
                "For information only, or change `groups`, `groups.exclude`, `topics` or `topics.exclude`: the line "
                "names the key."
            ),
            in_line=False,
        ),
        Message(
            "TW-GROUP-02",
            "A group lacks checkpoints in a topic",
            "warning",
            lines=("`no checkpoints in topic T for group G: it is not copied, or ...`",),
            meaning="The target lacks an equivalent of the group's committed offset.",
            impact="After a failover the group repeats or skips records of the topic.",
            mend="The group begins that topic by its `auto.offset.reset`.",
        ),
        Message(
            "TW-GROUP-03",
            "A group is in use on the target",
            "info",
            lines=("`group G is in use on west, its offsets there are left alone`",),
            meaning="The group has members on the target, or another program commits its offsets there.",
            impact=UNAFFECTED,
            mend="For information only; if the group should be idle there, stop its members.",
            in_line=False,
        ),
        Message(
            "TW-GROUP-04",
            "The topic of checkpoints was deleted",
            "warning",
            lines=("`topic east.checkpoints.internal was gone; its checkpoints are written again`",),
            meaning="The topic was deleted.",
            impact=UNAFFECTED,
            mend="For information only.",
        ),
        Message(
            "TW-GROUP-05",
            "Earlier checkpoints are unreadable",
            "warning",
            lines=(
                ("`earlier checkpoints are unreadable, and every group gets new checkpoints, which may be older: ...`"),
            ),
            meaning=(
                "The login lacks READ on the topic of checkpoints, so twinlog lacks the checkpoints of earlier runs."
            ),
            impact=(
                "Records are unaffected. A new checkpoint may be older than the last checkpoint: a group that moves "
                "now repeats more records."
            ),
            mend="Grant READ on the topic in the line, and restart the process.",
        ),
        Message(
            "TW-GROUP-06",
            "The way back of groups is closed",
            "warning",
            lines=("`offsets of groups in topics that came from WEST stay untranslated: ...`",),
            meaning=(
                "The login lacks READ on the positions of the opposite flow, so offsets in topics that the opposite "
                "flow has copied stay untranslated."
            ),
            impact="Groups that read these copies begin by their `auto.offset.reset` after they move.",
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
            meaning=("The login lacks READ on the topic of offset syncs, so twinlog lacks the syncs of MirrorMaker 2."),
            impact=("Offsets in records that MirrorMaker 2 copied stay untranslated; all other offsets are exact."),
            mend=(
                "Grant READ on the topic of offset syncs, if groups still have offsets in records that MirrorMaker 2 "
                "copied."
            ),
        ),
        Message(
            "TW-GROUP-08",
            "The begin of copies is found by content",
            "warning",
            lines=("`where copies begin is found by content alone: ...`",),
            meaning=(
                "`twinlog verify` cannot read the offset syncs, so it looks for the first copied record by the "
                "content of records."
            ),
            impact="The comparison reads more records; its result is unaffected.",
            mend="Grant READ on the topic of offset syncs.",
        ),
    ),
)

_ACL = Area(
    name="ACL",
    title="ACLs of topics",
    about="With `sync.topic.acls.enabled` twinlog copies ACLs of topics to the target.",
    look=("twinlog diff mm2.properties east west",),
    messages=(
        Message(
            "TW-ACL-01",
            "The target refuses an ACL",
            "warning",
            lines=("`the target refuses the ACL ACL: ...`",),
            meaning=(
                "The target lacks an authorizer, or the login lacks ALTER on the cluster. The line quotes the target."
            ),
            impact=("Records are copied. Consumers of the remote topic may lack a right that they have on the source."),
            mend=("Grant ALTER on the cluster to the login of twinlog, or set `sync.topic.acls.enabled = false`."),
        ),
        Message(
            "TW-ACL-02",
            "ACLs for all topics are left out",
            "warning",
            lines=("`the ACLs of EAST for all topics (*) are left out: where topics keep their names ...`",),
            meaning=(
                "The source has ACLs for the topic `*`, and the flow keeps the names of topics: on the target these "
                "ACLs would count for every topic there."
            ),
            impact="Records are copied. The target lacks the rights of these ACLs.",
            mend="Create the ACLs on the target by hand, if they should count for every topic of the target.",
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
            meaning="As MirrorMaker 2 does, twinlog copies ACLs of single topics only.",
            impact="Records are copied. The target lacks the rights of these ACLs.",
            mend="Create the ACLs on the target by hand, if consumers there need them.",
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
