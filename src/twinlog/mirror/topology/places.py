"""Which aliases stand for one cluster: a flow between two such aliases copies within it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings


@dataclass(frozen=True, slots=True)
class Places:
    """Aliases that stand for one cluster lead to one and the same of them; the others are not in `first`."""

    first: Mapping[Alias, Alias] = field(default_factory=dict)

    def same(self, one: Alias, other: Alias) -> bool:
        """Whether both aliases stand for one cluster."""
        return self._first(one) == self._first(other)

    def joined(self, one: Alias, other: Alias) -> Places:
        """The same where these two stand for one cluster as well."""
        here, there = self._first(one), self._first(other)
        known = {one, other, *self.first}
        return Places({alias: here if self._first(alias) == there else self._first(alias) for alias in known})

    def _first(self, alias: Alias) -> Alias:
        return self.first.get(alias, alias)


APART = Places()
"""Each alias stands for a cluster of its own."""


def places_of(flows: Iterable[FlowSettings]) -> Places:
    """Aliases of a file whose clients begin at common servers. Those of connectors are left out: each may mean another
    cluster by an alias."""
    clients = {}
    for flow in flows:
        if flow.kind is None:
            clients[flow.source] = flow.source_admin.client
            clients[flow.target] = flow.target_admin.client
    places = APART
    for one, other in combinations(sorted(clients), 2):
        if clients[one].shares_servers(clients[other]):
            places = places.joined(one, other)
    return places
