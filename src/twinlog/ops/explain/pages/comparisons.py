"""Messages about comparisons of records with their copies, with statements, and of a canary with MirrorMaker 2."""

from __future__ import annotations

from twinlog.ops.explain.message import Area, Message

_AGAINST = ("twinlog verify mm2.properties --against statement.json --key proof.key.pub.pem",)

VERIFY = Area(
    name="VERIFY",
    title="Findings of twinlog verify",
    about="This command only prints the messages.",
    look=("twinlog verify mm2.properties",),
    messages=(
        Message(
            "TW-VERIFY-01",
            "Records differ from their copies",
            "error",
            lines=("`T-0: N different; the first (value) at source offset N, target offset N`",),
            meaning="From `twinlog verify`: the line names the first of the [differences](verify.md) of a partition.",
            impact="Consumers on the target read other records than consumers on the source.",
            mend=(
                "Look for another producer of the remote topic, a policy `skip`, or a gap in the log. "
                "`twinlog topics restart-from` copies the records that the source still holds."
            ),
        ),
        Message(
            "TW-VERIFY-02",
            "A range was not compared",
            "warning",
            lines=("`T-0: not compared: target offsets N to N: the source has deleted its records (retention)`",),
            meaning="From `twinlog verify`: a side lacks the records of the range; the line has the reason.",
            impact="Differences in this range stay unknown.",
            mend="For information only; see [verify](verify.md#what-is-not-compared).",
        ),
        Message(
            "TW-VERIFY-03",
            "A partition or a flow was not compared",
            "error",
            lines=("`T-0 was not compared: ...`", "`flow FLOW was not compared: ...`"),
            meaning="From `twinlog verify`: the cluster is silent, or a right is missing; the line has the reason.",
            impact="Differences in these records stay unknown.",
            mend="Follow the reason, and run the command again.",
        ),
        Message(
            "TW-VERIFY-04",
            "The signature of a statement is wrong",
            "error",
            lines=(
                "`the signature FILE does not fit FILE: another key has signed it, or it was altered since`",
                "`FILE is no statement of version 1: ...`",
                "`the statement of this switchover has positions only, ...; its signature is right, and ...`",
            ),
            meaning=(
                "From `twinlog verify --against FILE`: the file is not as it was signed, the key of `--key` belongs to "
                "another pair, or the file is no [statement](verify.md#signed-statements) with digests."
            ),
            impact="No record is read, and nothing is proved.",
            mend="Take the file and its signature from the place where they were stored first, and the signer's key.",
            look=_AGAINST,
        ),
        Message(
            "TW-VERIFY-05",
            "Records differ from a statement",
            "error",
            lines=("`T-0: TARGET differs from the statement in N ranges, first at offsets N to N: ...`",),
            meaning=(
                "From `twinlog verify --against FILE`: a side has other records in these offsets than at the time of "
                "the statement."
            ),
            impact="Consumers of this side read other records than at the time of the statement.",
            mend=(
                "If the other side is equal to the statement, `twinlog verify` names the changed record. Look for a "
                "topic that was recreated, or for a broker that lost records."
            ),
            look=_AGAINST,
        ),
        Message(
            "TW-VERIFY-06",
            "Records of a statement are gone",
            "warning",
            lines=("`T-0: SOURCE lacks N records of the statement, deleted by ...`",),
            meaning="From `twinlog verify --against FILE`: retention or compaction has removed records since.",
            impact="These records, and the rest of their ranges, stay uncompared.",
            mend="For information only; repeat a check before the retention time of the topic ends.",
            look=_AGAINST,
        ),
        Message(
            "TW-VERIFY-07",
            "A statement is about another cluster",
            "error",
            lines=("`cluster WEST has the id ID, and the statement is about WEST with the id ID`",),
            meaning="From `twinlog verify --against FILE`: an address in the file leads to another cluster.",
            impact="No record is read.",
            mend="Correct `bootstrap.servers`, or take the statement of this cluster.",
            look=_AGAINST,
        ),
    ),
)

CANARY = Area(
    name="CANARY",
    title="Findings of twinlog canary report",
    about=(
        "This command only prints the messages; differences of records have ids of VERIFY, and groups that would skip "
        "records ids of AUDIT."
    ),
    look=("twinlog canary report mm2.properties canary/canary.properties",),
    messages=(
        Message(
            "TW-CANARY-01",
            "No record was compared",
            "warning",
            lines=("`No record was compared: the canary has yet to copy.`",),
            meaning="A copy has no record of the canary's topics up to the last stored position.",
            impact="Differences between the copies of both programs stay unknown.",
            mend="Let the canary run for a while, and repeat the report; `twinlog status` shows the canary's progress.",
            look=("twinlog status canary/canary.properties",),
        ),
        Message(
            "TW-CANARY-02",
            "The progress of a program is unknown",
            "warning",
            lines=("`the lag is unknown: ...`",),
            meaning="At the last look the positions of MirrorMaker 2 or of the canary were unreadable.",
            impact="The comparison lacks the lag of this program; copies and groups are compared.",
            mend="Follow the reason in the line: start the program, or grant the right, and repeat the report.",
        ),
    ),
)
