"""Keys of the whole process: driver, metrics and REST API (Kafka classes MirrorMakerConfig, RestServerConfig).

Keys of the REST API in the file of a dedicated MirrorMaker 2 are for requests between its processes; twinlog's
processes ignore them.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import (
    AT_ONCE,
    RESTART,
    Effect,
    Importance,
    InWorkerFile,
    Key,
    KeyType,
    Level,
    Shown,
    ValueForm,
    setting,
)
from twinlog.settings.worker import DriverListener, MetricsSettings, RestSettings, WorkerSettings

BOOL = KeyType.BOOL
INT, LIST, STRING, ENUM = KeyType.INT, KeyType.LIST, KeyType.STRING, KeyType.ENUM
JVM = Effect.JVM

_process = partial(Key, level=Level.PROCESS)
_setting = partial(setting, level=Level.PROCESS)
_rest = partial(Key, level=Level.PROCESS, effect=Effect.JVM, in_worker_file=InWorkerFile())
_rest_setting = partial(setting, RestSettings, level=Level.PROCESS, effect=Effect.JVM, in_worker_file=InWorkerFile())

REST_KEYS = (
    _rest_setting("listeners", LIST, "Addresses the REST listener binds to.", form=ValueForm.LISTENERS),
    _rest("admin.listeners", LIST, None, "Addresses of the REST listener for log levels.", form=ValueForm.LISTENERS),
    _rest("rest.advertised.host.name", STRING, None, "Host name other nodes call this node by."),
    _rest("rest.advertised.port", INT, None, "Port other nodes call this node at.", minimum=0, maximum=65_535),
    _rest(
        "rest.advertised.listener",
        ENUM,
        None,
        "Which listener other nodes call.",
        choices=("http", "https"),
        any_case=True,
    ),
    _rest_setting(
        "rest.extension.classes", LIST, "Classes that extend the REST listener, for example by basic authentication."
    ),
    _rest_setting("access.control.allow.origin", STRING, "Origin allowed to call the REST listener from a browser."),
    _rest_setting("access.control.allow.methods", STRING, "Methods allowed from a browser."),
    _rest_setting(
        "response.http.headers.config", STRING, "Headers added to every REST answer.", form=ValueForm.HEADERS
    ),
    _rest("listeners.https.*", STRING, None, "TLS settings of the REST listener."),
    _rest("admin.listeners.https.*", STRING, None, "TLS settings of the listener for log levels."),
)


LISTENERS = "twinlog.metrics.listeners"
HTTPS = f"{LISTENERS}.https."

METRICS_KEYS = (
    _setting(
        MetricsSettings,
        LISTENERS,
        KeyType.LIST,
        "Addresses that serve `/metrics` and `/metrics.json` to everyone, for example `http://127.0.0.1:9404`; off "
        "if empty. A worker has both pages on its `listeners`, too.",
        form=ValueForm.LISTENERS,
        update=RESTART,
    ),
    _process(
        f"{HTTPS}*",
        KeyType.STRING,
        None,
        "TLS settings of these addresses (`ssl.*`), if they are https.",
        update=RESTART,
    ),
    _setting(
        MetricsSettings,
        "twinlog.metrics.partitions.enabled",
        KeyType.BOOL,
        "Whether there are metrics for each partition and each group; those of flows, topics and tasks are always "
        "there.",
        update=RESTART,
    ),
    _setting(
        MetricsSettings,
        "twinlog.metrics.names",
        KeyType.ENUM,
        "Names of the metrics: `exporter` for the rules of Strimzi's examples for the JMX exporter, `reporter` for "
        "Strimzi's Metrics Reporter.",
        choices=("exporter", "reporter"),
        update=RESTART,
    ),
)


DRIVER_KEYS = (
    _setting(
        DriverListener,
        "twinlog.driver.host",
        STRING,
        "Name or address by which copiers on a Spark cluster reach this process; `spark.driver.host` if empty. Only "
        "tasks in other processes need these three.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        DriverListener,
        "twinlog.driver.bind.address",
        STRING,
        "Address of this machine on which it waits for them, `0.0.0.0` for all; `spark.driver.bindAddress` if empty, "
        "or else `spark.driver.host`.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        DriverListener,
        "twinlog.driver.port",
        INT,
        "Port of both, as a firewall or a network policy lets it pass; 0 is any that is free.",
        minimum=0,
        maximum=65_535,
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
)
"""The address at which a driver waits for its copiers."""

PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters.", form=ValueForm.ALIASES, update=AT_ONCE),
    _process(
        "config.providers",
        LIST,
        "",
        "Names of the sources of ${name:path:key} references in values.",
        update=AT_ONCE,
        shown=Shown(Importance.LOW, since=(4, 2)),
    ),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`; "
        "[other classes](security.md#secrets) may be listed.",
        update=AT_ONCE,
    ),
    _process(
        "twinlog.unknown.keys",
        ENUM,
        "fail",
        "Whether an unknown key stops the start or is only reported.",
        choices=("fail", "warn"),
        update=AT_ONCE,
        in_worker_file=InWorkerFile(default="warn"),
    ),
    _setting(
        WorkerSettings,
        "twinlog.bridge",
        BOOL,
        "Copy in a process beside the driver while Spark has no task for a flow: at a start, while Spark's JVM is "
        "started again, while Spark waits for executors.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    *DRIVER_KEYS,
    _process(
        "twinlog.shared.topics",
        ENUM,
        "refuse",
        "Two flows from different sources that keep the names of topics, and whose topics overlap on a target: refuse "
        "stops the start; with first, a topic that both sources have is copied from a single source: by the flow that "
        "copied it before, else by the first flow of the file.",
        choices=("refuse", "first"),
        update=RESTART,
    ),
    _process(
        "dedicated.mode.enable.internal.rest",
        BOOL,
        "false",
        "Processes that share a flow meet on its target, and only need its brokers.",
        effect=JVM,
    ),
    *METRICS_KEYS,
    *REST_KEYS,
)
