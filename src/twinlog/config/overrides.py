"""Which settings of Connect's own clients a connector may override, by the worker's policy (KIP-458, KIP-1188)."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.config.properties import PropertyEntry
from twinlog.config.text.reading import Problems
from twinlog.settings.worker import OverridePolicy, WorkerSettings

_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY = "connector.client.config.override.policy"
_ALLOWLIST = "connector.client.config.override.allowlist"
_WORDS = ("producer", "consumer", "admin")


def overrides(entries: Mapping[str, PropertyEntry], worker: WorkerSettings) -> list[tuple[str, str]]:
    """The overrides that Connect asks its policy about, each as the client's word and the setting.

    A source connector has only a producer, unless its offsets are in a topic of its own or written in transactions
    (class AbstractHerder).
    """
    topic = entries.get("offsets.storage.topic")
    more = worker.exactly_once == "enabled" or (topic is not None and bool(topic.value.strip()))
    prefixes = {word: f"{word}.override." for word in (_WORDS if more else _WORDS[:1])}
    return [
        (word, name.removeprefix(prefix))
        for name in entries
        for word, prefix in prefixes.items()
        if name.startswith(prefix)
    ]


def check_overrides(entries: Mapping[str, PropertyEntry], worker: WorkerSettings, problems: Problems) -> None:
    """Refuses each override that the worker's policy forbids, and names the allowed overrides."""
    allowed = _allowed(worker.override_policy, worker.override_allowlist)
    if allowed is None:
        return
    for word, setting in overrides(entries, worker):
        if setting not in allowed:
            where = f"{_POLICY} = {worker.override_policy}"
            where += f" and {_ALLOWLIST}" if worker.override_policy == "Allowlist" else ""
            may = f"only {', '.join(allowed)} to be overridden" if allowed else "nothing to be overridden"
            problems.refuse(entries[f"{word}.override.{setting}"], "not allowed by this worker", f"{may} ({where})")


def _allowed(policy: OverridePolicy, allowlist: tuple[str, ...]) -> tuple[str, ...] | None:
    """The settings that a policy allows; None for all."""
    if policy == "All":
        return None
    return {"None": (), "Principal": _PRINCIPAL, "Allowlist": allowlist}[policy]
