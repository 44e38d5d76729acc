"""Keys of the file itself: they count for the whole process (Kafka classes MirrorMakerConfig, RestServerConfig)."""

from __future__ import annotations

from functools import partial

from twinlog.config.key import Effect, Form, Key, KeyType, Level
from twinlog.config.keys_metrics import METRICS_KEYS
from twinlog.config.keys_rest import REST_KEYS

BOOL, INT = KeyType.BOOL, KeyType.INT
LIST, STRING, ENUM = KeyType.LIST, KeyType.STRING, KeyType.ENUM
LATER, JVM = Effect.LATER, Effect.JVM

_process = partial(Key, level=Level.PROCESS)

PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters.", form=Form.ALIASES),
    _process("config.providers", LIST, "", "Names of the sources of ${name:path:key} references in values."),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`.",
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
