"""Keys of the file itself: they count for the whole process (Kafka classes MirrorMakerConfig, RestServerConfig)."""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import Effect, Form, Key, KeyType, Level
from twinlog.config.keys.metrics import METRICS_KEYS
from twinlog.config.keys.rest import REST_KEYS

BOOL, INT = KeyType.BOOL, KeyType.INT
LIST, STRING, ENUM = KeyType.LIST, KeyType.STRING, KeyType.ENUM
JVM = Effect.JVM

_process = partial(Key, level=Level.PROCESS)

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
"""Where a driver waits for its copiers."""

PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters.", form=Form.ALIASES),
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
