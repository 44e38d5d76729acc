"""Keys of the metrics of a process: where it serves them, and how many."""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import Form, Key, KeyType, Level

_process = partial(Key, level=Level.PROCESS)

LISTENERS = "twinlog.metrics.listeners"
HTTPS = f"{LISTENERS}.https."

METRICS_KEYS = (
    _process(
        LISTENERS,
        KeyType.LIST,
        "",
        "Addresses that serve `/metrics` and `/metrics.json` to everyone, such as `http://127.0.0.1:9404`; none if "
        "empty. A worker has both pages on its `listeners`, too.",
        form=Form.LISTENERS,
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
