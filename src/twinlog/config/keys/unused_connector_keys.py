"""Keys that are ignored in the configuration of a connector, and the probable intention of their writer."""

from __future__ import annotations

from functools import cache, lru_cache

from twinlog.config.keys.suggest import spelled
from twinlog.config.keys.table import CLIENTS, CONNECTOR, SECURITY, WORKER

_READS = "the consumer that reads records takes source.consumer.{}"
_WRITES = "MirrorMaker 2 writes offset syncs with it; the producer that writes records takes producer.override.{}"
_ASKS = "write source.admin.{0} or target.admin.{0}"
_NO_EFFECT = {
    "producer.": _WRITES,
    "source.producer.": _WRITES,
    "target.producer.": _WRITES,
    "consumer.override.": _READS,
    "target.consumer.": _READS,
    "admin.override.": _ASKS,
}


def no_effect(name: str, prefix: str) -> str | None:
    """The reason why the key `name`, which has `prefix` in front, is ignored here, and how to write it; None if it
    counts."""
    if prefix in _NO_EFFECT:
        return _NO_EFFECT[prefix].format(name.removeprefix(prefix))
    if prefix or CONNECTOR.find_key(name) is not None:
        return None
    if SECURITY.find_key(name) is not None:
        return f"clients take it from their cluster; write source.cluster.{name} or target.cluster.{name}"
    if name.startswith("config.providers"):
        return "references are resolved by the providers of the worker's file"
    if name == "clusters":
        return "a connector has the two of source.cluster.alias and target.cluster.alias"
    if WORKER.find_key(name) is not None:
        return "it stands in the worker's file"
    return None


@lru_cache(maxsize=256)
def unknown_key(name: str) -> str:
    """Words for a message: the key that was probably meant instead of `name`."""
    for side in ("source", "target"):
        # `source.cluster.admin.sasl.mechanism` and its like look as if they had to work.
        rest = name.removeprefix(f"{side}.cluster.")
        word = rest.partition(".")[0]
        if rest != name and word in CLIENTS:
            return f"a known key (did you mean {side}.{rest}?)"
    return spelled(name, _names(), otherwise="")


@cache
def _names() -> tuple[str, ...]:
    sides = [f"{side}.cluster.{name}" for side in ("source", "target") for name in SECURITY.exact]
    clients = [
        f"{prefix}{name}"
        for word, table in CLIENTS.items()
        for name in table.exact
        for prefix in (f"source.{word}.", f"target.{word}.", f"{word}.override.")
    ]
    return (*CONNECTOR.exact, *sides, *clients)
