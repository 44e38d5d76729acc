"""Messages about whole files, logins, code of the user, and flows that contradict each other."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, UNAFFECTED, Message

FILES_AND_FLOWS = (
    Message(
        "TW-FILE-23",
        "A file is unreadable",
        "error",
        lines=("`FILE: error: ...; give a readable properties file`",),
        meaning="The file is missing, binary, in another encoding, or closed to this user.",
        impact=NOTHING_CHANGED,
        mend="Correct the path on the command line, or let this user read the file.",
    ),
    Message(
        "TW-FILE-24",
        "The text of a file is broken",
        "error",
        lines=(
            "`FILE:LINE: error: broken JSON: a comma before the closing }; remove the comma`",
            "`FILE:LINE: error: a tab indents this line; replace it by blanks, ...`",
        ),
        meaning="This line is no properties text, JSON or YAML; later lines were not read.",
        impact=NOTHING_CHANGED,
        mend="Correct the line.",
    ),
    Message(
        "TW-FILE-25",
        "The file belongs to another command",
        "error",
        lines=("`FILE: error: this is the file of a Connect worker, which runs with: twinlog connect FILE; give ...`",),
        meaning="",
        impact=NOTHING_CHANGED,
        mend="Use the command in the line, or give the file that this command reads.",
    ),
    Message(
        "TW-FILE-26",
        "A key is missing",
        "error",
        lines=("`FILE: error: KEY: missing; write ...`",),
        meaning="The file lacks a key that the flow needs.",
        impact=NOTHING_CHANGED,
        mend="Add the key, for example `east.bootstrap.servers = east-1.example.com:9092`.",
    ),
    Message(
        "TW-FILE-27",
        "No topic can have that name",
        "error",
        lines=(("`FILE:LINE: error: KEY: ... matches no topic, because a topic name holds no blank; write ...`"),),
        meaning=(
            "A topic name has only a-z A-Z 0-9 . _ -, and MirrorMaker 2 splits `topics` and `topics.exclude` at "
            "commas alone."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Write commas without quotes: `topics = orders, payments.*`. `connect-mirror-maker` starts with a warning."
        ),
    ),
    Message(
        "TW-FILE-28",
        "A login is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: VALUE is invalid; write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`",),
        meaning=(
            "`sasl.mechanism`, `sasl.jaas.config` or a token's setting is wrong, or needs Java (Kerberos, Amazon "
            "MSK's IAM)."
        ),
        impact=NOTHING_CHANGED,
        mend="Follow the line; [Security](security.md) has an example for each login.",
    ),
    Message(
        "TW-FILE-29",
        "A setting of TLS is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: VALUE is invalid; write TLSv1.2, TLSv1.3 or TLS`",),
        meaning="A setting `ssl.*` has an unknown value, or contradicts another setting.",
        impact=NOTHING_CHANGED,
        mend="Follow the line; see [encrypted clusters](security.md#encrypted-clusters).",
    ),
    Message(
        "TW-FILE-30",
        "A key store is unusable",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: FILE is unreadable (...); give a file that this process may read`",
            "`FILE:LINE: error: KEY: fails to open the file, or the file is damaged; give ...`",
        ),
        meaning="A key store or trust store is missing or damaged, or has another type or password.",
        impact=NOTHING_CHANGED,
        mend="Correct path, type or password. `keytool -list -keystore FILE` shows whether Java opens the file.",
    ),
    Message(
        "TW-FILE-31",
        "A class is unknown",
        "error",
        lines=("`FILE:LINE: error: KEY: CLASS is invalid; write ...`",),
        meaning="The key takes Kafka's own classes, or your own class in Python; other Java classes cannot run.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write a class from the line. To keep topic names, write "
            "`org.apache.kafka.connect.mirror.IdentityReplicationPolicy`; for your own rules see [custom "
            "classes](transforms.md#classes)."
        ),
    ),
    Message(
        "TW-FILE-32",
        "Code of your own fails",
        "error",
        lines=("`FILE:LINE: error: KEY: ... raises ...; expected ...`",),
        meaning="The check called your class or function, which failed or returned another type.",
        impact=NOTHING_CHANGED,
        mend="Correct the error that the line quotes; see [custom classes](transforms.md#classes).",
    ),
    Message(
        "TW-FILE-33",
        "A transform is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: transforms lacks NAME; write ...`",),
        meaning="A setting of `transforms`, `predicates`, `transform` or `transform.sql` is wrong.",
        impact=NOTHING_CHANGED,
        mend=(
            "Follow the line; see [transforms of Connect](transforms.md#connects-transforms) and [transforms in Python "
            "and SQL](transforms.md)."
        ),
    ),
    Message(
        "TW-FILE-34",
        "Two settings contradict each other",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: FLOW also copies records of open and aborted transactions; write "
                "KEY = read_committed`"
            ),
        ),
        meaning="A setting needs another setting that the file lacks.",
        impact="The flow runs; exactly-once copying includes records of aborted transactions.",
        mend="Write the second setting, as in the line.",
    ),
    Message(
        "TW-FILE-35",
        "No flow is enabled",
        "error",
        lines=("`FILE: error: enabled: all flows are off; write an enabled flow, ...`",),
        meaning="No key `A->B.enabled` is true.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write `A->B.enabled = true` with the aliases of `clusters`. For heartbeats alone write "
            "`emit.heartbeats.enabled = true`."
        ),
    ),
    Message(
        "TW-FILE-36",
        "Two sources have the same remote topic",
        "error",
        lines=(
            (
                "`FILE:LINE: error: KEY: flows A and B both write TOPICS on WEST, because topic names are "
                "kept (identity policy): ...`"
            ),
        ),
        meaning=(
            "Two flows keep topic names, and their `topics` overlap. MirrorMaker 2 mixes both sources in a topic; "
            "twinlog copies a single source, because offsets of two sources have no order."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Keep `topics` of the flows apart, or use the default policy. If the clusters have no topic in common, "
            "write `twinlog.shared.topics = first`. `connect-mirror-maker` starts with a warning."
        ),
    ),
    Message(
        "TW-FILE-37",
        "Two directions would copy a topic for ever",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: flows A and B both mirror TOPICS and keep the name (identity policy): ...`",
            (
                "`FILE:LINE: warning: KEY: flows A and B: as topic names are kept (identity policy), a topic "
                "that both mirror would be copied in a cycle for ever ...`"
            ),
        ),
        meaning=(
            "Both directions keep topic names, and their `topics` overlap. MirrorMaker 2 would copy each record "
            "for ever; twinlog leaves the topic out in both directions."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Keep `topics` of the two directions apart, enable a single direction, or use the default policy; see "
            "[topic names](limits.md#topic-names). As a warning: the lists may or may not overlap."
        ),
    ),
    Message(
        "TW-FILE-38",
        "A key is written twice",
        "warning",
        lines=("`FILE:LINE: warning: KEY: already written at line N; this line counts`",),
        meaning="The last line counts, as in every properties file.",
        impact=UNAFFECTED,
        mend="Remove either line.",
    ),
    Message(
        "TW-FILE-39",
        "An expression probably means something else",
        "warning",
        lines=(
            ("`FILE:LINE: warning: KEY: ... is a regular expression, and its * repeats the character before it; ...`"),
        ),
        meaning="The expression is legal, and matches other names than a reader expects.",
        impact="The flow copies the names that the expression matches.",
        mend="Write the expression in the line.",
    ),
    Message(
        "TW-FILE-40",
        "A part of a flow is off",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: with offset syncs off, checkpoints and offsets of groups are off "
                "in the flow FLOW, ...`"
            ),
        ),
        meaning="The file turns on a part that needs another part, which is off.",
        impact=("Consumer groups have no offsets on the target, or a dead-letter topic stays empty, as the line says."),
        mend="Turn the other part on. To silence the line, turn this part off.",
    ),
    Message(
        "TW-FILE-41",
        "A config provider is undeclared",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: ... stays as it is, because ...; write ...`",
            "`CONNECTOR: error: KEY: only the worker knows this secret: ...; write ...`",
            "`CONNECTOR: error: KEY: the worker hides the value; write ...`",
        ),
        meaning=(
            "`config.providers` lacks the provider. Kafka would use the reference's text as the value, for example "
            "as the password. With `--url`, the providers and the secrets are on the host of the worker."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Add the two lines in the message. `connect-mirror-maker` starts with a warning. With `--url`, write the "
            "logins of the clusters into the file of `--client-config`, or run the command on the worker's host, with "
            "the worker's file before `--url`."
        ),
    ),
    Message(
        "TW-FILE-42",
        "An effect differs from MirrorMaker 2",
        "info",
        lines=("`FILE:LINE: note: KEY: ...`",),
        meaning="`twinlog check --was RELEASE` names each effect that differs from MirrorMaker 2 of that release.",
        impact=UNAFFECTED,
        mend="To keep the old effect, write the setting in the line.",
    ),
)
