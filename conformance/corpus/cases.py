"""The corpus: each file with what MirrorMaker 2 4.3 was seen to do with it."""

from __future__ import annotations

from conformance.corpus.case import Case, Copies
from conformance.corpus.stock import ONE
from harness.checks.differences import Known

BOTH = ("one", "two")
ALL = ("one", "two", "three")
READERS = ("readers",)
ORDERS = ("orders",)
MONEY = ("orders", "payments")

COMMENTS = Known(
    r".*payments.*",
    "A comment behind a value is part of it for MirrorMaker 2, which then finds no such topic; twinlog cuts it off.",
)
OLD_NAMES = Known(
    r".*notes\.internal.*",
    "Names of before Kafka 3.0, such as topics.blacklist, mean nothing to MirrorMaker 2 since 4.0; twinlog heeds them.",
)
PASSIVE = Known(
    r"(topic|position in|heartbeat in|offset sync in) .*heartbeats.*",
    "A comment behind `false` keeps MirrorMaker 2 from writing the heartbeats of the way back; twinlog cuts it off.",
    one="",
)
PINNED = Known(
    r"(position|checkpoint|offset sync) in .*(orders|\"twinlog\":\"start\").*",
    "twinlog stores where a partition began, before a record comes, so that a restart does not begin at a later end.",
    one="",
)
BLANK = Known(
    r"((topic|records of|position in|checkpoint in|offset sync in) .*(A\.orders|\borders|A\.checkpoints|A\.heartbeats|"
    r"mm2-off).*|topic mm2-.*)",
    "A blank behind `true` keeps MirrorMaker 2 from starting the flow; twinlog starts it, and warns.",
)
WAY_BACK = Known(
    r"checkpoint in DC-[XY]\.checkpoints\.internal: (readers (audit|orders|payments)|viewers events).*",
    "A group that was moved and reads copies has checkpoints of the originals as well: twinlog knows where they lie, "
    "MirrorMaker 2 has no offset syncs for it.",
    one="",
)
TRANSACTIONS = Known(
    r"(offset sync|checkpoint|position) in .*|group .*",
    "Markers of transactions take offsets, and the two end transactions at other records.",
)


def _to_two(prefix: str, topics: tuple[str, ...] = ONE, **more: object) -> tuple[Copies, ...]:
    settings = {"groups": READERS, **more}
    return (Copies("one", "two", prefix, topics, **settings),)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    Case("minimal", "two clusters, one flow, one topic", _to_two("A.", ORDERS), BOTH),
    Case("bare", "nothing but addresses and `enabled`", _to_two("A."), BOTH),
    Case("template", "the sample that Kafka ships, filled in", _to_two("A."), BOTH),
    Case(
        "active-passive",
        "a manual's file for a standby, every setting written",
        _to_two("primary.", tuple(one for one in ONE if one != "notes.internal"), synced=True),
        BOTH,
    ),
    Case(
        "active-active",
        "both ways with the default policy",
        (
            Copies("one", "two", "DC-X.", ONE, READERS, synced=True),
            Copies("two", "one", "DC-Y.", ("events", "clicks"), ("viewers",), synced=True),
        ),
        BOTH,
        meant=(WAY_BACK,),
    ),
    Case(
        "active-active-regex",
        "both ways with look-ahead, and excludes for what came back",
        (
            Copies("one", "two", "us-east.", (*MONEY, "audit.v1", "my-Books_2"), READERS, synced=True),
            Copies("two", "one", "eu-west.", ("events", "clicks"), ("viewers",), synced=True),
        ),
        BOTH,
    ),
    Case(
        "fan-in",
        "two regions into one cluster",
        (
            Copies("one", "three", "berlin.", MONEY, READERS, synced=True),
            Copies("two", "three", "tokyo.", ("events", "clicks"), ("viewers",), synced=True),
        ),
        ALL,
    ),
    Case(
        "fan-out",
        "one cluster to two, with a separator of its own for one flow",
        (
            Copies("one", "two", "center.", ORDERS, READERS),
            Copies("one", "three", "center_", ("orders", "audit.v1"), READERS),
        ),
        ALL,
    ),
    Case(
        "hub",
        "a hub, and copies that go on to the other spoke",
        (
            Copies("one", "two", "north.", ORDERS),
            Copies("three", "two", "south.", ("sensors", "device.heartbeats")),
            Copies("two", "one", "hub.", ("events",)),
            Copies("two", "three", "hub.", ("events",)),
            Copies("three", "one", "hub.south.", ("sensors",)),
            Copies("one", "three", "hub.north.", ORDERS),
        ),
        ALL,
    ),
    Case(
        "chain",
        "copies that are copied on",
        (
            Copies("one", "two", "first.", ("payments",), heartbeats=False),
            Copies("one", "three", "second.first.", ("payments",), heartbeats=False),
        ),
    ),
    Case("identity", "names kept by the policy, groups committed", _to_two("", synced=True, heartbeats=False), BOTH),
    Case(
        "identity-everything",
        "names kept, nothing excluded, settings that do not exist",
        (Copies("one", "two", "", (*ONE, "old.replica"), ("readers", "connect-sink"), synced=True, heartbeats=False),),
        BOTH,
    ),
    Case(
        "identity-migration",
        "defaults first, flows last, no refresh, no heartbeats",
        _to_two("", synced=True, heartbeats=False),
    ),
    Case(
        "identity-two-way",
        "names kept both ways: MirrorMaker 2 copies in a cycle for ever, twinlog leaves such topics out",
        (Copies("one", "two", "", ORDERS, heartbeats=False),),
        endless=True,
    ),
    Case("empty-alias", "no aliases and no separator, so that names are kept", _to_two("", synced=True), BOTH),
    Case(
        "empty-alias-list",
        "the same of the source alone, with a line that came in by pasting",
        _to_two("", ("orders", "audit.v1"), synced=True, heartbeats=False),
        BOTH,
    ),
    Case(
        "empty-alias-letters",
        "the same in Kafka's sample, where the target is called B, with client settings where they mean nothing",
        _to_two("", tuple(one for one in ONE if one not in {"my-Books_2", "notes.internal"}), synced=True),
        BOTH,
    ),
    Case(
        "empty-alias-cloud",
        "a provider's file for names that are kept, with TLS and replication factors of all kinds",
        _to_two(""),
        BOTH,
        meant=(OLD_NAMES,),
    ),
    Case(
        "empty-separator",
        "no separator, but an alias",
        _to_two("shop", MONEY, synced=True, heartbeats=False),
        BOTH,
    ),
    Case("empty-alias-alone", "no alias, but a separator", _to_two(".", MONEY, synced=True), BOTH),
    Case(
        "aliases-of-their-own",
        "aliases for names that are not those of the clusters",
        _to_two("lab.", tuple(one for one in ONE if one != "notes.internal"), groups=()),
        ("one",),
    ),
    Case(
        "old-names",
        "excludes under their names of before 3.0, and a comment behind `false`",
        _to_two("source.", heartbeats=False),
        ("two",),
        (OLD_NAMES, PASSIVE),
    ),
    Case("quotes", "aliases in quotes"),
    Case("quoted-values", "topics and groups in quotes", _to_two("source.", ("payments",), groups=()), BOTH),
    Case(
        "odd-whitespace",
        "colons, tabs, blanks for separators, lines that go on, an escape, line ends of another system",
        _to_two("left.", MONEY, synced=True),
        BOTH,
    ),
    Case("spaced-arrow", "blanks around ->, so that all flows are off", beats=BOTH),
    Case(
        "inline-comments",
        "comments behind values",
        _to_two("primary.", ORDERS, heartbeats=False),
        ("two",),
        (COMMENTS, PASSIVE),
    ),
    Case("blank-after-true", "blanks at the ends of lines", beats=BOTH, meant=(BLANK,)),
    Case("tuned", "clients tuned one by one", _to_two("prod.", MONEY, synced=True), BOTH),
    Case("acks-one", "a producer that asks one replica", _to_two("us-east.", ORDERS), BOTH),
    Case("in-flight", "a producer with ten requests on their way", _to_two("us-east.", ORDERS), BOTH),
    Case("listed-providers", "three providers, two of them used", _to_two("one.", ORDERS), BOTH),
    Case("sasl-everywhere", "a login at every level", _to_two("", MONEY, synced=True, heartbeats=False), BOTH),
    Case(
        "scram-over-tls",
        "SCRAM over TLS with secrets out of a directory",
        _to_two("source.", ORDERS, synced=True),
        BOTH,
    ),
    Case("tls-one-side", "TLS for one cluster alone", _to_two("plain.", MONEY), BOTH),
    Case(
        "regexes",
        "expressions with alternatives, escapes and flags",
        (
            Copies(
                *("one", "two", "A.", (*MONEY, "audit.v1", "my-Books_2")),
                ("readers", "connect-sink"),
                heartbeats=False,
            ),
        ),
    ),
    Case(
        "regexes-of-java",
        "expressions that only Java's engine has",
        _to_two("A.", (*MONEY, "my-Books_2"), heartbeats=False),
    ),
    Case("misspelled", "settings that nobody knows", _to_two("GRU.", ORDERS), BOTH),
    Case(
        "no-heartbeats",
        "heartbeats off for each flow, offset syncs on the target",
        _to_two("src.", ORDERS, synced=True, heartbeats=False),
    ),
    Case(
        "no-checkpoints",
        "neither checkpoints nor offset syncs, no heartbeats mirrored",
        _to_two("source.", ORDERS, groups=(), heartbeats=False),
        BOTH,
    ),
    Case("only-heartbeats", "two flows, both off", beats=BOTH),
    Case(
        "exactly-once",
        "transactions, and names kept",
        _to_two("", MONEY, groups=(), heartbeats=False),
        meant=(TRANSACTIONS,),
    ),
    Case(
        "json-converter",
        "a converter for JSON in a dedicated process: MirrorMaker 2 fails at the first record without a value",
        endless=True,
    ),
    Case(
        "one-cluster", "a flow inside one cluster", (Copies("one", "one", "live.", MONEY, READERS, heartbeats=False),)
    ),
    Case(
        "user-heartbeats",
        "a user's topic that is called like one of heartbeats",
        (Copies("three", "two", "edge.", ("sensors", "device.heartbeats")),),
        ("three", "two"),
    ),
    Case("name-at-top", "a name for the process, which all connectors get", _to_two("", heartbeats=False), BOTH),
    Case("latest", "only what comes from now on", _to_two("A.", (), groups=()), BOTH, (PINNED,)),
    Case(
        "by-duration",
        "only what came within a time: MirrorMaker 2's consumer repeats that the version of an API is not supported",
        endless=True,
    ),
    Case(
        "policy-class",
        "a class of a user's that keeps names",
        _to_two("", ORDERS, heartbeats=False),
        policy=True,
    ),
    Case("doubled-equals", "an address that begins with an equals sign"),
    Case("no-clusters", "`cluster` in the place of `clusters`"),
    Case(
        "connect-three",
        "the three connectors, with a group and settings of clients that mean nothing",
        _to_two("east.", MONEY, synced=True, heartbeats=False),
        ("two",),
    ),
    Case(
        "connect-alone",
        "a source connector alone, with keys of a dedicated process",
        _to_two("source.", ORDERS, groups=(), heartbeats=False),
    ),
    Case(
        "connect-empty-alias",
        "connectors without aliases and separator",
        _to_two("", MONEY, synced=True, heartbeats=False),
    ),
    Case(
        "connect-mixed-types",
        "numbers and truth values in JSON, a separator of a word, a login",
        _to_two("origin.replica.", tuple(one for one in ONE if one != "notes.internal"), synced=True, heartbeats=False),
    ),
    Case(
        "connect-identity",
        "names kept, and settings of transactions that do not exist",
        _to_two("", MONEY, groups=(), heartbeats=False),
    ),
    Case(
        "connect-overrides",
        "overrides of the producer, one of them for one replica's acknowledgement",
        _to_two("a.", ORDERS, groups=(), heartbeats=False),
    ),
    Case(
        "connect-transform",
        "a transform that adds a header",
        _to_two("a.", ORDERS, groups=(), heartbeats=False),
    ),
)
