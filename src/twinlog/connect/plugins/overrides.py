"""Which settings of Connect's own clients a connector may override, by the worker's policy (KIP-458, KIP-1188)."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.settings.worker import OverridePolicy, WorkerSettings

_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY = "connector.client.config.override.policy"
_ALLOWLIST = "connector.client.config.override.allowlist"
_WORDS = ("producer", "consumer", "admin")


def overrides(names: Iterable[str], worker: WorkerSettings, *, own_offsets_topic: bool) -> list[tuple[str, str]]:
    """The overrides among `names` that Connect asks its policy about, each as the client's word and the setting.

    A source connector has no clients but a producer, unless its offsets are in a topic of its own or written in
    transactions (class AbstractHerder).
    """
    words = _WORDS if own_offsets_topic or worker.exactly_once == "enabled" else _WORDS[:1]
    return [
        (word, name.removeprefix(prefix))
        for name in names
        for word in words
        if name.startswith(prefix := f"{word}.override.")
    ]


def refusal(setting: str, worker: WorkerSettings) -> str | None:
    """Why the worker does not allow the override of `setting`, and what it does allow; None where it allows it."""
    allowed = _allowed(worker.override_policy, worker.override_allowlist)
    if allowed is None or setting in allowed:
        return None
    may = f"only {', '.join(allowed)}" if allowed else "nothing"
    where = f"{_POLICY} = {worker.override_policy}"
    if worker.override_policy == "Allowlist":
        where += f" and {_ALLOWLIST}"
    return f"this worker lets connectors override {may} ({where})"


def _allowed(policy: OverridePolicy, allowlist: tuple[str, ...]) -> tuple[str, ...] | None:
    """The settings that a policy allows; None for all."""
    if policy == "All":
        return None
    return {"None": (), "Principal": _PRINCIPAL, "Allowlist": allowlist}[policy]
