"""Messages about the continuous proof of equality."""

from __future__ import annotations

from twinlog.ops.explain.message import ONE_PARTITION_WAITS, UNAFFECTED, Area, Message, Page

_PROOF = Area(
    name="PROOF",
    title="Proof of equality",
    about="With `twinlog.proof = true` the remote topics are read behind the copying, and compared with the source.",
    look=(
        "twinlog status mm2.properties",
        "twinlog verify mm2.properties --topic T --every-record",
    ),
    messages=(
        Message(
            "TW-PROOF-01",
            "The target differs from the source",
            "error",
            lines=(
                "`T-0 is held at source offset N: ... differs: at offset N ... source offset N`",
                "`difference: T-0: ... differs: at offset N ... source offset N`",
            ),
            meaning=(
                "The prover read a batch of the remote log that the copier did not write, or misses a batch that the "
                "target acknowledged, and read it a second time. The line has the offsets on both sides. Causes are "
                "another program that writes to the remote topic, a damaged disk, and an election that lost "
                "acknowledged records."
            ),
            impact=ONE_PARTITION_WAITS + " With `twinlog.difference.policy = report` this partition is copied, too.",
            mend=(
                "Read both records with `kafka-console-consumer.sh`. Then accept the difference with "
                "`twinlog.difference.policy.T = report` and `twinlog reload mm2.properties`, or delete the remote "
                "topic: twinlog creates it again, and copies the source from its first record. See "
                "[proof](proof.md#differences)."
            ),
        ),
        Message(
            "TW-PROOF-02",
            "Nothing is proven now",
            "warning",
            lines=("`proof: the remote topics are not proven: ...`",),
            meaning="The prover cannot read the remote topics, or their settings; the line has the reason.",
            impact=UNAFFECTED + " The proof falls behind.",
            mend=(
                "Mend the reason in the line. The producer's login needs READ and DESCRIBE_CONFIGS on the remote "
                "topics: `twinlog acls mm2.properties`."
            ),
        ),
        Message(
            "TW-PROOF-03",
            "The proof misses open transactions",
            "warning",
            lines=("`brokers of WEST are older than Kafka N, so the proof misses transactions of other programs ...`",),
            meaning=(
                "The brokers of the target hide open transactions, or the transactional ids that a flow with "
                "`exactly.once.source.support = enabled` needs. A foreign transaction that is open when the proof "
                "begins, and is committed later, stays unseen. Later transactions are found."
            ),
            impact=UNAFFECTED,
            mend="`twinlog verify` finds its records. Newer brokers end the warning.",
        ),
    ),
)

PAGE = Page("proof", "Proof of equality", (_PROOF,))
