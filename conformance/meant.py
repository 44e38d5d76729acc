"""Every difference between two workers that is meant, and why. What is not covered here fails the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.differences import Known

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
    Known(r".*: body\.message( line \d)?", "Words of the parser, which name classes of Java.", one=_JACKSON),
    Known(
        r".*: header (Content-Type|Allow)",
        "Errors are declared as the JSON that they are, and 405 names the methods (RFC 9110).",
        one="",
        other=r"application/json|[A-Z,]+",
    ),
    Known(
        r".*: (body\.message line \d+|body\.configs\..*\.errors)",
        "An error says what was expected, and where Connect follows it with another one, that its null is none either, "
        "it is one.",
        one=r".*(Invalid value|Null value|You can also find).*",
        other=r".*(Invalid value|Null is no value|You can also find).*|",
    ),
    Known(
        r".*: (body\.message line 2|body\.configs\.(transforms|predicates|(key|value|header)\.converter)\.errors)",
        "Records are copied as bytes: no transform or predicate is known, and of converters those of Kafka.",
        one=r".*(transforms|predicates)\..*\.type.*|.*does not implement the \w+ interface.*",
        other=r".*expected (nothing, because this version copies records unchanged|one of ).*",
    ),
    Known(
        r"(connectors-config / put tasks in words|connectors-create / post several errors"
        r"|providers / wrong type in a reference): body\.message( line \d)?",
        "One error less, for the reason above.",
    ),
    Known(
        r".*: body\.message",
        "The message would show the whole configuration, secrets included.",
        one=r'"Connector config \{.*\} contains no connector type"',
        other=r'"Connector config contains no connector type.*',
    ),
    Known(
        r".*: body\.message",
        "This worker runs three connectors, and says which.",
        one=r'"Failed to find any class that implements Connector.*',
        other=r".* is no connector that this worker runs.*",
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
        r"status / (create one (whose tasks fail|that fails)|task failed|failed( task| has no tasks| can be read)?"
        r"|mend it): .*",
        "A login that no client can be made with is refused when it is submitted, and does not fail later.",
    ),
    Known(
        r"(status|providers|standalone) / all configs( of \w+)?: .*",
        "`tasks-config` is answered as by 3.9, for clients of that: those of 4.x do not ask.",
    ),
)
"""What this project's worker answers otherwise than that of Kafka."""

MEANT: Mapping[tuple[str, str], Sequence[Known]] = {RELEASES: BETWEEN_RELEASES, (NEWER, "twinlog"): OF_TWINLOG}
"""By the names of the two sides."""
