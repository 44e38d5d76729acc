"""Messages about alerts."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.ops.explain.message import COPIES_NOTHING, Area, Message, Page

ALERTS: Mapping[str, str] = {
    "TwinlogDown": "TW-ALERT-01",
    "TwinlogFlowWithoutLeader": "TW-ALERT-02",
    "TwinlogFlowFailed": "TW-FLOW-01",
    "TwinlogFlowNotCopying": "TW-ALERT-03",
    "TwinlogFlowStopped": "TW-ALERT-04",
    "TwinlogPartitionsStuck": "TW-WAIT-05",
    "TwinlogPartitionsHeld": "TW-HELD-01",
    "TwinlogTopicsMissing": "TW-TOPIC-16",
    "TwinlogLagGrows": "TW-ALERT-05",
    "TwinlogLagUnknown": "TW-ALERT-06",
    "TwinlogNoReport": "TW-ALERT-07",
    "TwinlogGap": "TW-GAP-01",
    "TwinlogForeignWriter": "TW-TARGET-04",
    "TwinlogProofDifference": "TW-PROOF-01",
    "TwinlogProofBehind": "TW-ALERT-12",
    "TwinlogNotSafeToFailOver": "TW-ALERT-08",
    "TwinlogGroupSyncOld": "TW-ALERT-09",
    "TwinlogStandbyMissing": "TW-ALERT-10",
    "TwinlogProcessRestarts": "TW-ALERT-11",
    "TwinlogSparkRestarts": "TW-SPARK-03",
}
"""The message id of each alert of `deploy/monitoring/alerts.yaml`, by the alert's name."""

_ALERT = Area(
    name="ALERT",
    title="Alerts",
    about="Alerts of `deploy/monitoring/alerts.yaml` that are about metrics alone.",
    look=("twinlog status mm2.properties",),
    messages=(
        Message(
            "TW-ALERT-01",
            "The metrics have disappeared",
            "error",
            lines=("`alert TwinlogDown`",),
            meaning="All processes of twinlog have ended, or their metrics address has changed.",
            impact="Unknown: the flows may have stopped.",
            mend="Start the process, or correct the address of the scrape. The end of the last log has the reason.",
            look=(
                "systemctl status twinlog",
                "curl -s http://HOST:9404/metrics | head",
            ),
        ),
        Message(
            "TW-ALERT-02",
            "A flow lacks a leader",
            "error",
            lines=("`alert TwinlogFlowWithoutLeader`",),
            meaning="Every scraped process has been on standby for the flow for two minutes.",
            impact=COPIES_NOTHING,
            mend=(
                "Read the log of each process: it names the awaited process. MirrorMaker 2 in the same group is a "
                "cause as well; see [TW-LEADER-01](messages/processes.md#tw-leader-01)."
            ),
        ),
        Message(
            "TW-ALERT-03",
            "A flow is starting or waiting for ten minutes",
            "error",
            lines=("`alert TwinlogFlowNotCopying`",),
            meaning="A cluster fails to answer, or Spark lacks a task for the flow.",
            impact="The flow has stopped; positions are stored.",
            mend="Run `twinlog status` for the silent cluster and the reason. See the area [WAIT](messages/flows.md).",
        ),
        Message(
            "TW-ALERT-04",
            "A flow has stopped, and records wait",
            "error",
            lines=("`alert TwinlogFlowStopped`",),
            meaning="The flow runs, but its counter of copied records stayed the same for five minutes.",
            impact="Records wait on the source; retention may delete them.",
            mend="Run `twinlog status` for the waiting partitions and the reason.",
        ),
        Message(
            "TW-ALERT-05",
            "A flow falls behind",
            "warning",
            lines=("`alert TwinlogLagGrows`",),
            meaning="For ten minutes producers have written faster than the flow copies.",
            impact="A failover now would lose the waiting records.",
            mend=(
                "Raise `tasks.max`, give Spark more cores, or look for a throttling broker. `twinlog status` has the "
                "partitions with the largest lag."
            ),
        ),
        Message(
            "TW-ALERT-06",
            "The lag of partitions is unknown",
            "warning",
            lines=("`alert TwinlogLagUnknown`",),
            meaning="The source fails to answer for these partitions, or every copier has lost them.",
            impact="Unknown for these partitions; all other partitions are copied.",
            mend="Check the brokers of the source. `twinlog status` names the partitions.",
        ),
        Message(
            "TW-ALERT-07",
            "A copier is silent for a minute",
            "error",
            lines=("`alert TwinlogNoReport`",),
            meaning="The copier's executor hangs, or is cut off from the driver.",
            impact="The copier's partitions wait until another copier has them.",
            mend=(
                "Check the executor and its network to the driver. twinlog gives the partitions to another copier by "
                "itself."
            ),
        ),
        Message(
            "TW-ALERT-08",
            "A failover would lose or repeat records",
            "warning",
            lines=("`alert TwinlogNotSafeToFailOver`",),
            meaning="For 15 minutes records wait, or groups have inexact positions or stand too far on the target.",
            impact="A failover now would lose the waiting records, or groups would repeat or skip records.",
            mend=(
                "Run `twinlog groups` for the groups, and find the reason in [which groups may "
                "move](consumer-groups.md#which-groups-may-move). See the lag in `twinlog status`. A group may stay "
                "inexact until it has read the records that MirrorMaker 2 copied."
            ),
            look=(
                "twinlog groups mm2.properties",
                "twinlog status mm2.properties",
            ),
        ),
        Message(
            "TW-ALERT-09",
            "Positions of groups are old on the target",
            "warning",
            lines=("`alert TwinlogGroupSyncOld`",),
            meaning="Checkpoints or committed offsets of groups on the target are five minutes overdue.",
            impact="A group that moves now repeats the records that it has read since.",
            mend="Run `twinlog status` for the reason. See [TW-FLOW-04](messages/flows.md#tw-flow-04).",
            look=(
                "twinlog groups mm2.properties",
                "twinlog status mm2.properties",
            ),
        ),
        Message(
            "TW-ALERT-10",
            "A standby process is missing",
            "info",
            lines=("`alert TwinlogStandbyMissing`",),
            meaning="A single process runs the flow.",
            impact="Records are copied. If the process ends, the flow stops until a restart.",
            mend=(
                "Start twinlog with the same file on a second host. If a single process is intended, silence the alert."
            ),
        ),
        Message(
            "TW-ALERT-11",
            "The process restarts again and again",
            "warning",
            lines=("`alert TwinlogProcessRestarts`",),
            meaning="twinlog started three times or more within an hour.",
            impact="Each restart pauses copying for some seconds.",
            mend=(
                "Read the end of the previous log. If it lacks an error, the kernel ended the process, mostly for "
                "memory: give the container more memory."
            ),
            look=(
                "dmesg | grep -i 'out of memory'",
                "kubectl logs POD --previous",
            ),
        ),
        Message(
            "TW-ALERT-12",
            "The proof of equality is behind",
            "warning",
            lines=("`alert TwinlogProofBehind`",),
            meaning=(
                "The oldest unproven append was acknowledged a minute ago: the copiers have too little processor time, "
                "the target answers slowly, or an open transaction of another program hides the records."
            ),
            impact="Records are copied, and proven late.",
            mend=(
                "Raise `tasks.max`. Look for a hanging transaction with `kafka-transactions.sh find-hanging`, and for "
                "`TW-PROOF-02` in the log. See [proof](proof.md)."
            ),
        ),
    ),
)

PAGE = Page("alerts", "Alerts", (_ALERT,))
