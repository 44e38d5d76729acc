"""Every difference between two workers that is meant, and why. What is not covered here fails the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.checks.differences import Known

OLDER, NEWER = RELEASES = ("3.9.1", "4.3.0")
"""Of Kafka, whose workers were recorded."""

_KEYS = (
    r"(plugins / (source|checkpoint|heartbeat)'s keys|validate / (source|checkpoint|heartbeat) whole): "
    r"body\.(keys|configs)\."
)
"""Where all keys of a connector are listed."""

BETWEEN_RELEASES: Sequence[Known] = (
    Known(
        r".*: body(\..*\.(connector|tasks\[\d\])|\.(connector|tasks\[\d\]))?\.version",
        "Statuses name the version of the plugin since 4.1 (KIP-891).",
    ),
    # -- keys of plugins
    Known(
        r"(plugins|validate) / .*: body\.(keys|configs)\..*\.(order|order_in_group)",
        "The place of a key in its group was renamed, and moved where keys came before it.",
    ),
    Known(
        rf"{_KEYS}((\w+\.)+plugin\.version|config\.providers|heartbeats\.replication\.enabled|metric\.names\.formats"
        r"|sasl\.oauthbearer\.(assertion|client|jwt|scope)(\.\w+)*)\.(definition\.|value\.)?\w+",
        "Keys that came with 4.0 to 4.3.",
    ),
    Known(
        rf"{_KEYS}((topics|groups|config\.properties)\.blacklist|add\.source\.alias\.to\.metrics"
        r"|auto\.include\.jmx\.reporter|use\.incremental\.alter\.configs)\..*",
        "Keys that went with 4.0.",
    ),
    Known(
        rf"{_KEYS}(topics\.exclude|config\.properties\.exclude|metric\.reporters|ssl\.cipher\.suites"
        r"|sasl\.oauthbearer\.expected\.audience)\.(definition\.default_value|default_value|value\.value)",
        "Defaults that 4.x changed: narrower exclusions, JmxReporter by name, an empty list in place of none.",
    ),
    Known(rf"{_KEYS}.*\.documentation", "Texts that were rewritten."),
    Known(r"plugins / keys of JSON: body\.keys\.schema\.content\..*", "A key that came with 4.x."),
    Known(r"(plugins|validate) / .*: body(\.order)?", "Order of the keys, among them those that came and went."),
    Known(r"plugins / (no|unknown) version: .*", "3.9 knows no versions of plugins: the parameter is ignored."),
    # -- validation
    Known(
        r"validate / (blacklists?|default topics|names of metrics|whether configs are altered in parts): body\..*",
        "Keys that came and went, and defaults that changed, as above.",
    ),
    Known(r"validate / plugin version: body\..*", "3.9 keeps the key as one that nobody knows."),
    Known(r"validate / topics twice: body\..*", "Lists take a value once only since 4.x (KIP-1161)."),
    Known(
        r"(connectors-create / post (a class that is no connector|an empty class|an unknown class|with a twin key)"
        r"|http / body in escapes|providers / class in a reference): (status|body\.error_code)",
        "An unknown class is the caller's fault since 4.0: 400 in place of 500.",
    ),
    # -- resources
    Known(r"(status|providers|standalone) / all configs( of \w+)?: .*", "`tasks-config` went with 4.0 (KIP-970)."),
    Known(
        r"loggers / (empty scope|set root): body",
        "Since 4.0 a logger that has the level already is not among those that changed.",
    ),
    Known(r"loggers / set an empty level: .*", "log4j 2 refuses an empty name with an error of its own."),
    Known(r"overrides-allowlist / .*", "The policy came with 4.3."),
    # -- HTTP
    Known(
        r"(connectors-create / post (an unknown member|no JSON)|offsets-source / unknown member( of one)?"
        r"|http / (comma at the end|comment in the body|single quotes)|internal / tasks in a form)"
        r": body\.message( line 2)?",
        "Words and columns of another release of the JSON parser.",
    ),
    Known(
        r"http / (escape of nothing|percent without digits|too long a (header|query)): body",
        "The page that Jetty itself answers with.",
    ),
    Known(
        r"cors(-any)? / .*: header Access-Control-.*",
        "4.x leaves access control to Jetty 12: no credentials, fewer headers, a minute in place of half an hour, and "
        "an answer to preflights of other methods, too.",
    ),
    Known(
        r"http / two slashes( within)?: .*"
        r"|names / ((put|delete) (percent|escape as a name)|(percent|escape as a name) runs|get unescaped arrow): .*"
        r"|names-refused / (get escaped (backslash|dot|slash)|put control character): .*",
        "Jetty 12 refuses paths that could be read in two ways, among them every name with a percent sign.",
    ),
)

_JACKSON = (
    r".*(Cannot (construct instance|deserialize value|invoke)|Unrecognized (field|token)|Unexpected (end-of-input|char)"
    r"|Trailing token|Non-standard token| at \[Source| beneath \[).*"
)
"""What Java's parser of JSON says, and Java itself where a body was null."""

OF_TWINLOG: Sequence[Known] = (
    # -- every call
    Known(
        r".*: (status|body\.error_code)",
        "What the caller wrote wrongly is the caller's fault, and no client tries it again: 400 in place of 500.",
        one="500",
        other="400",
    ),
    Known(r"root / no metrics: .*", "The page of metrics is there: Kafka's worker has them in JMX."),
    Known(r".*: body\.message( line \d)?", "Words of the parser, which name classes of Java.", one=_JACKSON),
    Known(
        r".*: header (Content-Type|Allow)",
        "Errors are declared as the JSON that they are, and 405 names the methods (RFC 9110).",
        one="",
        other=r"application/json|[A-Z,]+",
    ),
    Known(
        r".*: (body\.message line \d+|body\.configs\..*\.errors)",
        "An error says what was expected, and has the id for `twinlog explain`; where Connect follows it with another "
        "one, that its null is none either, it is one.",
        one=r".*(Invalid value|Null value|Missing required|You can also find).*",
        other=r".*(Invalid value|has the value null|Missing required|You can also find).*|",
    ),
    Known(
        r"names-refused / post line break: body\.message line 3",
        "The id for `twinlog explain`, behind a name of two lines.",
        other=r'.* \[TW-FILE-22\]"',
    ),
    Known(
        r".*: (body\.message line 2|body\.configs\.(transforms|predicates|(key|value|header)\.converter)\.errors)",
        "Records are copied as bytes: no transform or predicate is known, and of converters those of Kafka.",
        one=r".*(transforms|predicates)\..*\.type.*|.*does not implement the \w+ interface.*",
        other=r".*expected (nothing, because this version copies records unchanged|(any|one) of ).*",
    ),
    Known(
        r"(connectors-config / put tasks in words|connectors-create / post several errors"
        r"|providers / wrong type in a reference): body\.message( line \d)?",
        "One error less, for the reason above.",
    ),
    Known(
        r".*: body\.message",
        "The message would show the whole configuration, secrets included.",
        one=r'"(org\.apache\.[\w.]*BadRequestException: )?Connector config \{.*\} contains no connector type"',
        other=r'"TW-FILE-26: Connector config contains no connector type.*',
    ),
    Known(
        r".*: body\.message",
        "This worker runs three connectors, and says which.",
        one=r'"Failed to find any class that implements Connector.*',
        other=r".* is unknown to this worker.*",
    ),
    Known(
        r"(http / .*|(names|names-refused) / .*): (body(\..*)?|status|header (Content-Type|Location))",
        "Jetty's own pages: paths that could be read in two ways are read in one here, so that every name has a place, "
        "and what is refused is refused in JSON.",
        one=r'|text/html.*|"<page: .*"|null|400',
    ),
    Known(
        r"names-refused / post (slash|semicolon): header Location",
        "The place is escaped, so that it leads to the connector.",
        other=".*%(2F|3B).*",
    ),
    Known(
        r"names / put brackets: .*",
        "Connect creates it, and then fails at the place of the answer, which it takes for a template.",
    ),
    Known(
        r"http / no media type: (status|body(\..*)?)",
        "Content of no type is of none that is taken: 415 with a body, in place of 400 without.",
    ),
    Known(r"http / body in Latin: body\.message", "The parser's words.", one='"Invalid UTF-8.*'),
    Known(
        r"http / a megabyte: body\.message",
        "The message would show the whole configuration, as above.",
    ),
    # -- plugins and validation
    Known(
        r"(plugins|validate|validate-exact) / .*: body\.(keys|configs)\..*\.documentation",
        "What a key does here.",
        one='".*"',
        other='".+"',
    ),
    Known(
        r"(plugins|validate|validate-exact) / .*: body\.(keys|configs)\..*\.order",
        "The place of a key in its group has the name that it had up to 4.1, too: kafka-ui reads that.",
        one="",
        other=r"-?\d+",
    ),
    Known(
        r"(plugins|validate) / .*: body\.(keys|configs)\.((refresh\.(topics|groups)|emit\.checkpoints"
        r"|sync\.(topic\.(acls|configs)|group\.offsets))\.interval\.seconds|transaction\.boundary\.interval\.ms)"
        r"\.(definition\.default_value|default_value|value\.value|value)",
        "Defaults that are other ones here: a form shows what counts.",
        one=r'"60+"|null',
        other=r'"\d+"',
    ),
    Known(
        r"plugins / (((source|checkpoint|heartbeat)'s keys): body\.order|(keys by \w+ name|newest version): body)",
        "The keys that Connect has for source connectors stand with its others, not behind the connector's.",
        other=r'\["name", "connector\.class".*"tasks\.max".*\]',
    ),
    Known(
        r"(plugins|validate) / (keys of a (transform|predicate)|transform.*|predicate.*): .*",
        "There are no transforms and no predicates here: records are copied as bytes.",
    ),
    Known(
        r"plugins / keys of a class that is no plugin: (status|body\.(error_code|message))",
        "A class that is no plugin is as unknown as any other.",
        other=r"404|.*Unknown plugin.*",
    ),
    Known(
        r"validate / (too many tasks|tasks (in words|as a fraction)|exactly once required): body\.error_count",
        "One error less, for the reason above.",
    ),
    Known(
        r"(plugins / (no|unknown) version|validate / plugin version): body\.(message|error_count|groups|configs\..*)",
        "There is one version; the error stands at the key that asks for another one, and the other keys are checked.",
    ),
    Known(
        r"validate / .*: body\.configs\..*\.errors",
        "The same error in the form of all others, with what was expected.",
        one=r'\["(This worker does not have exactly-once|The connector does not support|Mirror\w+Connector can).*',
        other=r'\["Invalid value .*',
    ),
    Known(
        r"validate / (exactly once without the worker: body\.configs\.exactly\.once\.support"
        r"|no syncs for checkpoints: body\.configs\.emit\.offset-syncs\.enabled"
        r"|converter that is none: body\.configs\.key\.converter"
        r"|override of an unknown key: body\.configs\.producer\.override\.nope|policy that is none: .*)\.value",
        "A value is shown as it was written where its type is good and it is no secret; of what no client knows nobody "
        "knows whether it is one.",
    ),
    Known(
        r"(validate / \w+'s class alone|client-scripts / AKHQ's validation)"
        r": body\.(error_count|configs\.source\.cluster\.bootstrap\.servers\..*)"
        r"|validate / ((boundary of no length|no partitions|(groups|topics) by a broken pattern|policy that is none)"
        r": body\.(error_count|configs.*))",
        "What Connect finds when the connector starts, or what no connector can do, is an error of the key at once.",
    ),
    Known(
        r"validate / override of a wrong type: .*",
        "The setting has no effect here, and its value is not looked at; Connect answers 500.",
    ),
    Known(
        r"validate / topics twice: .*",
        "A list may take a value twice, as in 3.9: nothing comes of it.",
    ),
    Known(
        r"validate / converter with (its keys|a wrong key): body\.groups",
        "Groups of a converter in the order of its keys.",
        one=r'.*, "Serialization", "Schemas"\]',
        other=r'.*, "Schemas", "Serialization"\]',
    ),
    Known(
        r"providers / .*: body\.configs\..*\.value",
        "What a reference leads to may be a secret: the reference itself is shown, or where it leads nowhere nothing.",
        other=r'".*\$\{.*\}.*"|null',
    ),
    Known(
        r"providers / (absent file of a folder|folder that is not allowed|no key|unknown (file|key)"
        r"|variable (that is not (allowed|set)|with a path)): .*",
        "A reference that leads nowhere is an error of its key; Connect takes it for the value, or fails.",
    ),
    Known(
        r"providers / (file of a folder|not closed|nothing in it|unknown provider|password): "
        r"body\.(error_count|configs\.target\.cluster\.alias\.errors)",
        "An alias is part of topics' names, and has to be legal there.",
        other=r".*legal in topic names.*|1",
    ),
    Known(
        r"(overrides-\w+|validate-exact) / .*: (body\.message line \d|body\.configs\..*\.errors)",
        "The same error in the form of all others, with what may be changed and by which key.",
        one=r".*(The '\w+' policy does not allow|MirrorSourceConnector can only|does not implement the API).*",
        other=r".*Invalid value .*",
    ),
    Known(
        r"overrides-\w+ / .*acks: .*",
        "A copy that the target's replicas lack would be lost with a broker: records are appended with all, and the "
        "policy does not matter.",
    ),
    Known(
        r"validate-exact / .*: body\.configs\.exactly\.once\.support\.value",
        "The value as it was written.",
        one="null",
        other='"required"',
    ),
    # -- offsets
    Known(
        r"offsets-source / offset beyond 64 bits: body\.message",
        "The same without a class of Java.",
        one=".*BigInteger.*",
        other=".*a number beyond 64 bits.*",
    ),
    Known(
        r"client-strimzi / topics: body\..*\.topics",
        "A matter of moments: whether the first heartbeat is written by then.",
        one=r"\[\]",
        other=r'\["heartbeats"\]',
    ),
    # -- who asks, and from where
    Known(
        r"auth / .*: header WWW-Authenticate",
        "401 names the scheme (RFC 9110).",
        one="",
        other="Basic .*",
    ),
    Known(
        r"auth / .*: header Content-Type",
        "The sentence of 401 is no JSON.",
        one="application/json",
        other="text/plain.*",
    ),
    Known(
        r"auth / (no base 64|two blanks): (status|body(\..*)?)",
        "What is no login is a wrong one; blanks in front of one do no harm.",
        one="500|.*Illegal base64.*|",
    ),
    Known(
        r"auth / loggers of nobody at the admin listener: (status|body.*)",
        "Who sets levels at the listener for administrators logs in, too.",
    ),
    Known(
        r"cors(-any)? / .*: header Access-Control-.*",
        "Pages of other origins are answered as by 3.9, which lets them do more: log in, and keep what they were told "
        "for half an hour. Preflights of other methods have no such header, and browsers refuse those in both.",
    ),
    # -- loggers
    Known(
        r"loggers / logger of a connector: .*",
        "Connect's names of loggers lead to those here that log the like, before anybody has set one.",
    ),
    Known(
        r"standalone / restart (unknown|task of unknown|task beyond the last): (status|body\.(error_code|message))",
        "A standalone worker answers as one of a group does, and not with a mistake of its own.",
        other="404|.*Unknown (connector|task): .*",
    ),
    Known(
        r"(loggers(-\w+)?|cors|auth) / (root|list|.*at the admin listener|set root): body(\.root)?(\.level)?",
        "Libraries log from WARN on; twinlog's own loggers from INFO.",
        other=r'"WARN"|\[.*"root".*\]',
    ),
    Known(
        r"loggers / set an empty level: (status|body\.(error_code|message))",
        "An empty level is an unknown one.",
        other=r"404|.*invalid log level.*",
    ),
    # -- internal
    Known(
        r"internal / tasks (of another algorithm|with a signature that is none): body\.message",
        "The same in words that name the key to change.",
    ),
    # -- connectors
    Known(
        r"connectors-config / (patch the name|is as it was patched): .*",
        "A connector cannot be given the name of another one by a change of its configuration.",
    ),
    Known(
        r"connectors-config / patch the name away: body\.message.*",
        "The same: its name is no key like others.",
    ),
    Known(
        r"(status|lifecycle) / (create one (whose tasks? fails?|that fails)|task failed( again)?|failed( .*)?|mend it"
        r"|restart (failed( and only failed| task)?|only its failed task)|(pause|stop|resume) failed|stays failed"
        r"|(pause|resume) one whose task failed|task (stays|is still) failed): .*",
        "A login that no client can be made with is refused when it is submitted, and does not fail later.",
    ),
    Known(
        r"lifecycle / restart with a flag in capitals: body\.connector\.state",
        "A restart is answered at once: the one before may still be under way.",
        one='"RUNNING"',
        other='"RESTARTING"',
    ),
    Known(
        r"lifecycle / restart task of stopped: (status|body\.(error_code|message))",
        "A stopped connector has no tasks: 404 in place of a conflict that would last.",
        one="409|.*no known leader.*",
        other="404|.*Unknown task.*",
    ),
    Known(
        r"(status|providers|standalone) / all configs( of \w+)?: .*",
        "`tasks-config` is answered as by 3.9, for clients of that: those of 4.x do not ask.",
    ),
)
"""What this project's worker answers otherwise than that of Kafka."""

MEANT: Mapping[tuple[str, str], Sequence[Known]] = {RELEASES: BETWEEN_RELEASES, (NEWER, "twinlog"): OF_TWINLOG}
"""By the names of the two sides."""
