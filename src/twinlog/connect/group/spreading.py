"""Which worker runs which connector: as few as possible move, and nobody has two more than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.connect.model import ConnectorName

WorkerId = str
"""A worker as its group knows it."""


def assign(
    owned: Mapping[WorkerId, Iterable[ConnectorName]], connectors: Iterable[ConnectorName]
) -> dict[WorkerId, frozenset[ConnectorName]]:
    """What each worker is to run, given what each still runs.

    A connector that a worker has runs on there, unless it is taken away; then nobody gets it until that worker has
    ended it and joins again without it (KIP-415).
    """
    known = set(connectors) if owned else set()
    given: dict[WorkerId, set[ConnectorName]] = {}
    taken: set[ConnectorName] = set()
    for worker in sorted(owned):
        # Two of them own one only when one was cut off and does not know that yet.
        given[worker] = {name for name in owned[worker] if name in known and name not in taken}
        taken |= given[worker]
    for name in sorted(known - taken):
        given[min(given, key=lambda worker: (len(given[worker]), worker))].add(name)
    if not given:
        return {}
    while True:
        most = max(given, key=lambda worker: (len(given[worker]), worker))
        least = min(given, key=lambda worker: (len(given[worker]), worker))
        if len(given[most]) - len(given[least]) - _revoked(given, known) < 2:
            return {worker: frozenset(names) for worker, names in given.items()}
        held = set(owned[most])
        given[most].remove(max(given[most], key=lambda name: (name in held, name)))


def _revoked(given: Mapping[WorkerId, set[ConnectorName]], known: set[ConnectorName]) -> int:
    """How many connectors nobody has for now."""
    return len(known) - sum(map(len, given.values()))
