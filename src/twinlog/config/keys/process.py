"""Keys of the whole process: driver, metrics and REST API (Kafka classes MirrorMakerConfig, RestServerConfig).

Keys of the REST API in the file of a dedicated MirrorMaker 2 are for requests between its processes; twinlog's
processes work without them.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import Effect, Key, KeyType, Level, ValueForm

BOOL = KeyType.BOOL
INT, LIST, STRING, ENUM = KeyType.INT, KeyType.LIST, KeyType.STRING, KeyType.ENUM
JVM = Effect.JVM

_process = partial(Key, level=Level.PROCESS)
_rest = partial(Key, level=Level.PROCESS, effect=Effect.JVM)

REST_KEYS = (
    _rest(
        "listeners",
        LIST,
        "http://:8083",
        "Addresses the REST listener binds to.",
        form=ValueForm.LISTENERS,
    ),
    _rest(
        "admin.listeners",
        LIST,
        None,
        "Addresses of the REST listener for log levels.",
        form=ValueForm.LISTENERS,
    ),
    _rest("rest.advertised.host.name", STRING, None, "Host name other nodes call this one by."),
    _rest(
        "rest.advertised.port",
        INT,
        None,
        "Port other nodes call this one at.",
        minimum=0,
        maximum=65_535,
    ),
    _rest(
        "rest.advertised.listener",
        ENUM,
        None,
        "Which listener other nodes call.",
        choices=("http", "https"),
        any_case=True,
    ),
    _rest(
        "rest.extension.classes",
        LIST,
        "",
        "Classes that extend the REST listener, such as basic authentication.",
    ),
    _rest(
        "access.control.allow.origin",
        STRING,
        "",
        "Origin allowed to call the REST listener from a browser.",
    ),
    _rest("access.control.allow.methods", STRING, "", "Methods allowed from a browser."),
    _rest(
        "response.http.headers.config",
        STRING,
        "",
        "Headers added to every REST answer.",
        form=ValueForm.HEADERS,
    ),
    _rest("listeners.https.*", STRING, None, "TLS settings of the REST listener."),
    _rest("admin.listeners.https.*", STRING, None, "TLS settings of the listener for log levels."),
)


LISTENERS = "twinlog.metrics.listeners"
HTTPS = f"{LISTENERS}.https."

METRICS_KEYS = (
    _process(
        LISTENERS,
        KeyType.LIST,
        "",
        "Addresses that serve `/metrics` and `/metrics.json` to everyone, such as `http://127.0.0.1:9404`; none if "
        "empty. A worker has both pages on its `listeners`, too.",
        form=ValueForm.LISTENERS,
    ),
    _process(
        f"{HTTPS}*",
        KeyType.STRING,
        None,
        "TLS settings of these addresses (`ssl.*`), where they are https.",
    ),
    _process(
        "twinlog.metrics.partitions.enabled",
        KeyType.BOOL,
        "true",
        "Whether there are metrics for each partition and each group; those of flows, topics and tasks are always "
        "there.",
    ),
)


DRIVER_KEYS = (
    _process(
        "twinlog.driver.host",
        STRING,
        "",
        "Name or address by which copiers on a Spark cluster reach this process; `spark.driver.host` if empty. Tasks "
        "in this process (`local`) need none of these three.",
    ),
    _process(
        "twinlog.driver.bind.address",
        STRING,
        "",
        "Address of this machine on which it waits for them, `0.0.0.0` for all; `spark.driver.bindAddress` if empty, "
        "or else `spark.driver.host`.",
    ),
    _process(
        "twinlog.driver.port",
        INT,
        "0",
        "Port of both, as a firewall or a network policy lets it pass; 0 is any that is free.",
        minimum=0,
        maximum=65_535,
    ),
)
"""The address at which a driver waits for its copiers."""

PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters.", form=ValueForm.ALIASES),
    _process("config.providers", LIST, "", "Names of the sources of ${name:path:key} references in values."),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`; "
        "[other classes](security.md#secrets) may be listed.",
    ),
    _process(
        "twinlog.unknown.keys",
        ENUM,
        "fail",
        "Whether an unknown key stops the start or is only reported.",
        choices=("fail", "warn"),
    ),
    _process(
        "twinlog.warm.up.enabled",
        BOOL,
        "true",
        "Prepare later starts of Spark in the background, as `twinlog warm-up` does, where that was never done.",
    ),
    *DRIVER_KEYS,
    _process(
        "dedicated.mode.enable.internal.rest",
        BOOL,
        "false",
        "Processes that share a flow meet on its target and need no listener.",
        effect=JVM,
    ),
    *METRICS_KEYS,
    *REST_KEYS,
)
