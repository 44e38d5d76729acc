"""Messages about topics on the target."""

from __future__ import annotations

from twinlog.ops.explain.message import (
    COPIES_NOTHING,
    LEFT_OUT,
    NOTHING_TO_DO,
    ONE_PARTITION_WAITS,
    UNAFFECTED,
    Area,
    Message,
    Page,
)

_TOPIC = Area(
    name="TOPIC",
    title="Selection and creation of topics",
    about="A flow decides by names and settings which topics it mirrors, and creates the remote topics.",
    look=(
        "twinlog plan mm2.properties",
        "twinlog status mm2.properties",
    ),
    messages=(
        Message(
            "TW-TOPIC-01",
            "A topic would be copied in a cycle",
            "error",
            lines=("`not mirrored: TOPICS: the flows ... would copy it in a cycle`",),
            meaning="The line names both flows. See [cycles](synced.md#checks-before-a-change).",
            impact=LEFT_OUT,
            mend="Change `topics` or `topics.exclude` of either flow.",
        ),
        Message(
            "TW-TOPIC-02",
            "A topic is a copy that came back",
            "error",
            lines=("`not mirrored: TOPICS: by its name it ...`",),
            meaning="A flow of another file copied the topics back.",
            impact=LEFT_OUT,
            mend=(
                "Give both directions the same separator and policy. For an original topic, write its full name in "
                "`topics`."
            ),
        ),
        Message(
            "TW-TOPIC-03",
            "Two flows write to the same remote topic",
            "error",
            lines=("`not mirrored: TOPICS: FLOW copies ... to the same topic`",),
            meaning="Both flows give the topics the same remote name. See [cycles](synced.md#checks-before-a-change).",
            impact="Only the other flow copies the topics.",
            mend="Change `topics` of either flow, or use the default policy.",
        ),
        Message(
            "TW-TOPIC-04",
            "A router leads back to the flow",
            "error",
            lines=(
                (
                    "`not mirrored: TOPICS: the flow routes it to ..., a topic of the same cluster that it mirrors as "
                    "well, ...`"
                ),
            ),
            meaning="A router [within a single cluster](running.md#within-a-single-cluster) leads back to the flow.",
            impact=LEFT_OUT,
            mend="Leave the target topics of the router out of `topics`.",
        ),
        Message(
            "TW-TOPIC-05",
            "Topics that look like copies are left out",
            "warning",
            lines=(
                (
                    "`not mirrored, as other flows of the file name their copies so, though WEST has no topic of "
                    "which they would be copies: TOPICS`"
                ),
            ),
            meaning="Names of your own topics look like copies, or the topics are copies of deleted topics.",
            impact=LEFT_OUT,
            mend="Write the full names of your own topics, in place of patterns, in `topics` of this flow.",
        ),
        Message(
            "TW-TOPIC-06",
            "A name that lacks a separator counts as a copy",
            "warning",
            lines=(
                "`without a separator each letter of a name counts for an alias: ...`",
                ("`not mirrored, because without a separator each letter of a name counts for an alias, and ...`"),
            ),
            meaning=(
                "The target's alias is a single letter. twinlog leaves out topics with that letter, as MirrorMaker 2 "
                "does."
            ),
            impact=LEFT_OUT,
            mend="Write a longer `A->B.target.cluster.alias`, or an empty alias.",
        ),
        Message(
            "TW-TOPIC-07",
            "Topics look like copies without an original",
            "warning",
            lines=(
                (
                    "`not mirrored, because by their names they are copies, though their originals are missing: "
                    "TOPICS; ...`"
                ),
            ),
            meaning=(
                "Each name begins with the target's alias and the separator, and the target lacks the original topic."
            ),
            impact=LEFT_OUT,
            mend=(
                "For your own topics, choose another `replication.policy.separator`, or write their full names in "
                "`topics`."
            ),
        ),
        Message(
            "TW-TOPIC-08",
            "Topics are gone from the source",
            "warning",
            lines=("`gone from east: TOPICS`",),
            meaning="The source deleted the topics.",
            impact="Copying of these topics has ended; the copies stay on the target.",
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-TOPIC-09",
            "Copies of other flows are left out",
            "info",
            lines=("`not mirrored, as other flows of the file name their copies so: TOPICS`",),
            meaning="These topics came from the target.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-TOPIC-10",
            "The filters leave out every topic",
            "warning",
            lines=(
                "`no topic of EAST is mirrored, of N that can be seen (...)`",
                "`nothing to copy: ...`",
            ),
            meaning="The line lists each reason with its topics.",
            impact=COPIES_NOTHING,
            mend="Change `topics` and `topics.exclude`. With `--until-caught-up` the exit code is 1.",
        ),
        Message(
            "TW-TOPIC-11",
            "The login sees internal topics only",
            "warning",
            lines=("`no topic of EAST can be seen besides heartbeats and internal topics; ...`",),
            meaning="The source has no other topics, or the login lacks DESCRIBE on them.",
            impact=COPIES_NOTHING,
            mend="Grant DESCRIBE on the topics.",
        ),
        Message(
            "TW-TOPIC-12",
            "The target refuses a topic setting",
            "warning",
            lines=("`the target refuses SETTING of TOPICS, which is left out`",),
            meaning="The setting or the value is unknown to the target.",
            impact="The remote topic keeps its own value; records are copied.",
            mend="To silence the line, add the setting to `config.properties.exclude`.",
        ),
        Message(
            "TW-TOPIC-13",
            "A replication factor is too large",
            "warning",
            lines=(("`cluster C refuses replication factor N of TOPICS ...; the broker's default is taken`"),),
            meaning="The cluster has fewer brokers than the replication factor.",
            impact="The topics get the broker's default; records are copied.",
            mend="Correct `replication.factor`, `offset.storage.replication.factor`.",
        ),
        Message(
            "TW-TOPIC-14",
            "A topic lacks a setting of its source",
            "warning",
            lines=("`cluster B refuses SETTING of TOPIC (...); created without`",),
            meaning=(
                "The setting is unknown to the target, or its policy for new topics refuses it. The line quotes the "
                "target."
            ),
            impact="The topic has the target's own value; records are copied.",
            mend=(
                "If you need the value, set it on the target by hand. To silence the line, add the setting to "
                "`config.properties.exclude`."
            ),
        ),
        Message(
            "TW-TOPIC-15",
            "The target refuses a remote topic",
            "error",
            lines=("`remote topic T: Topic 'T' collides with existing topics: ...`",),
            meaning="Kafka refuses two names that differ only in dots and underscores.",
            impact="The topic stays uncopied; all other topics are copied.",
            mend="Choose another separator, or delete the existing topic.",
        ),
        Message(
            "TW-TOPIC-16",
            "The creation of remote topics waits",
            "warning",
            lines=("`remote topics are not created or grown yet, and are tried again: ...`",),
            meaning="The quota `controller_mutation_rate` throttles the target's controller, or the controller moves.",
            impact="These topics wait until the target has created them; all other topics are copied.",
            mend="Wait for 1 to 30 seconds, or raise `controller_mutation_rate` for the login.",
        ),
        Message(
            "TW-TOPIC-17",
            "The settings of remote topics are unreadable",
            "warning",
            lines=(
                (
                    "`... lacks DESCRIBE_CONFIGS on topic ..., needed for knowing the largest batch it takes; the "
                    "default is taken, ...`"
                ),
            ),
            meaning=(
                "The login lacks DESCRIBE_CONFIGS on the remote topics, so twinlog assumes the broker's default for "
                "the largest batch."
            ),
            impact="Records are copied. twinlog splits a batch that the target refuses, which costs time.",
            mend="Grant DESCRIBE_CONFIGS on the remote topics.",
        ),
        Message(
            "TW-TOPIC-18",
            "Conflicts with another flow are unknown",
            "warning",
            lines=("`cycles and conflicts with FLOW cannot be seen: ...`",),
            meaning="This host lacks the policy class of the other flow, so names of its remote topics are unknown.",
            impact=(
                "Copying continues. If both flows write to the same remote topics, consumers read records of both "
                "flows."
            ),
            mend="Install the module with the class on this host, or compare the `topics` of both flows by hand.",
        ),
        Message(
            "TW-TOPIC-19",
            "The topics of another flow are unknown",
            "warning",
            lines=("`whether it mirrors the same topics cannot be seen now: ...`",),
            meaning="The source of the other flow is silent.",
            impact="Copying continues. twinlog finds a conflict once that cluster answers.",
            mend="Follow the reason at the end of the line; twinlog asks again by itself.",
        ),
        Message(
            "TW-TOPIC-20",
            "Topics are mirrored past the filter",
            "warning",
            lines=("`mirrored in spite of ...: TOPICS; ...`",),
            meaning=(
                "The names of your topics end like names of heartbeat topics, see "
                "[heartbeats](monitoring.md#heartbeats)."
            ),
            impact="The topics are copied, although `topics` leaves them out.",
            mend="If this is unintended, set `heartbeats.replication.enabled = false`.",
        ),
        Message(
            "TW-TOPIC-21",
            "A topic counts as a topic of a user",
            "warning",
            lines=("`TOPIC is taken for a topic of a user: USER lacks READ ...`",),
            meaning="The login may not read the topic, so twinlog cannot look for heartbeats of another mirror in it.",
            impact="The topic is copied like a user's topic.",
            mend="If the topic holds heartbeats, grant READ on it to the login of the admin client.",
        ),
        Message(
            "TW-TOPIC-22",
            "A transform routes records within the cluster",
            "error",
            lines=(("`... it routes records to TOPIC: within a cluster the flow may read them there again; ...`"),),
            meaning=(
                "A transform [within a single cluster](running.md#within-a-single-cluster) chose a topic outside the "
                "flow's copies."
            ),
            impact=ONE_PARTITION_WAITS,
            mend="Choose a name with the beginning in the line.",
        ),
        Message(
            "TW-TOPIC-23",
            "The lease is empty",
            "info",
            lines=("`lease N: 0 partitions in 0 tasks`",),
            meaning="`topics` matches nothing, or the creation of every remote topic failed.",
            impact=COPIES_NOTHING,
            mend=(
                "Check `topics`, `topics.exclude`, the login's DESCRIBE on the topics, and the errors before this line."
            ),
            in_line=False,
        ),
        Message(
            "TW-TOPIC-24",
            "Remote topics are missing at the end of the run",
            "error",
            lines=("`caught up, but remote topics are missing: ...`",),
            meaning=(
                "`--until-caught-up` copied all other topics; the target refuses to create or grow the named remote "
                "topics, or the source hides their originals."
            ),
            impact="Records of the named topics are missing on the target.",
            mend="Follow the answer in the line, and run the command again.",
        ),
        Message(
            "TW-TOPIC-25",
            "Another process copies a topic",
            "warning",
            lines=(
                (
                    "`not copied here: TOPICS: MirrorMaker 2 runs: group G of west has the members ..., and its task "
                    "... copies it`"
                ),
                "`not copied here: TOPICS: MirrorMaker 2 is stopped, and its task ... would copy it at the next start`",
                (
                    "`not copied here: TOPICS: MirrorMaker 2 runs: ..., and has just changed its tasks: their last "
                    "records may be under way`"
                ),
                "`not copied here: TOPICS: process HOST-PID of twinlog copies it with group.id = G`",
                "`not copied here: TOPICS: whether MirrorMaker 2 copies it is hidden from this login: ...`",
            ),
            meaning=(
                "This file has its own `group.id`, for a run beside another process ([wave by "
                "wave](canary.md#hand-over-wave-by-wave)), and both processes would copy the same topics. twinlog "
                "reads MirrorMaker 2's topics in `mm2-configs.east.internal`, and twinlog's topics in reports."
            ),
            impact="The other process copies these topics; this process copies its other topics.",
            mend=(
                "Take the topics out of `topics` of the other process and restart it; this process follows within half "
                "a minute. If MirrorMaker 2 has ended for good, remove `group.id` and restart twinlog. Grant a right "
                "that the line names."
            ),
        ),
        Message(
            "TW-TOPIC-26",
            "Other processes of twinlog are hidden",
            "warning",
            lines=("`another process of twinlog that copies the same topics would be overlooked: ...`",),
            meaning=(
                "The login lacks READ on the topic of reports, in which a process with another `group.id` names its "
                "topics."
            ),
            impact="If `topics` of two processes overlap, records are copied twice.",
            mend="Grant READ on `mm2-twinlog-progress.east.internal`.",
        ),
    ),
)

_NAME = Area(
    name="NAME",
    title="Renamed topics and aliases",
    about="The file gives topics other names on the target than the file of an earlier run.",
    look=(
        "twinlog plan mm2.properties",
        "twinlog check mm2.properties",
    ),
    messages=(
        Message(
            "TW-NAME-01",
            "The source has another alias than its positions",
            "warning",
            lines=(
                (
                    "`the positions of TOPICS are stored under the alias ... of the source, and are looked for under "
                    "...`"
                ),
            ),
            meaning="The file has a new alias for a source whose topics keep their names.",
            impact=(
                "`twinlog.renamed.topic.policy` decides: with `continue` copying continues at the positions, with "
                "`restart` all records are copied a second time, otherwise the flow waits."
            ),
            mend=(
                "Write the earlier alias, or `twinlog.renamed.topic.policy = continue` for a single run, see "
                "[gaps](delivery.md#gaps)."
            ),
        ),
        Message(
            "TW-NAME-02",
            "The names of remote topics have changed",
            "warning",
            lines=("`naming was changed since these topics were copied: ...`",),
            meaning="The copied records are in topics with the earlier names.",
            impact=(
                "`twinlog.renamed.topic.policy` decides: with `continue` later records go to the new names, with "
                "`restart` all records, otherwise the flow waits."
            ),
            mend=(
                "Return to the earlier names, or set `twinlog.renamed.topic.policy = restart` or `continue`, see "
                "[gaps](delivery.md#gaps)."
            ),
        ),
        Message(
            "TW-NAME-03",
            "The renamed topics had records already",
            "warning",
            lines=("`TOPICS had records already, which ...`",),
            meaning="The file returned to earlier names, or another program wrote to the topics.",
            impact="Consumers of these topics repeat some records, or miss records copied under other names.",
            mend="Delete these topics before a `restart`, so that each record is present once.",
        ),
    ),
)

PAGE = Page(
    "topics",
    "Topics on the target",
    (
        _TOPIC,
        _NAME,
    ),
)
