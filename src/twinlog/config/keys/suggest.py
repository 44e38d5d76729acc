"""Suggests the known key that an unknown key may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from twinlog.config.keys.scope import KeyScope, KeyScopes
from twinlog.config.keys.table import CLIENTS, CONNECTOR, PROCESS, SECURITY, WORKER

_CLOSE = 0.72
_KEY_END = re.compile(r"[\s=:]")
GUESS = "did you mean"
"""The words in every text that names a key."""

_OR_WARN = ", or twinlog.unknown.keys = warn to go on without it"

_CLUSTER_NAMES = (
    *WORKER.exact,
    *(f"{word}.{name}" for word, table in CLIENTS.items() for name in table.exact),
)
_TOP_NAMES = (*PROCESS.exact, *CONNECTOR.exact, *SECURITY.exact)


def expected_instead(scope: KeyScope, scopes: KeyScopes) -> str:
    """Words for a message: the key that was probably meant, or the place to look at."""
    name = scope.entry.key
    if scope.entry.value.startswith("->"):
        rest = _KEY_END.split(scope.entry.value.removeprefix("->").lstrip(), maxsplit=1)[0]
        return f"a flow without blanks, {name}->{rest}, because a key ends at its first blank"
    if "->" in name and scope.flow is None:
        return _flow_instead(name, scopes)
    if scope.flow is not None:
        return spelled(scope.name, CONNECTOR.exact, f"{scope.flow[0]}->{scope.flow[1]}.")
    if scope.alias is not None:
        for word, table in CLIENTS.items():
            if table.find_key(scope.name) is not None:
                return _meant(f"{scope.alias}.{word}.{scope.name}")
        return spelled(scope.name, _CLUSTER_NAMES, f"{scope.alias}.")
    for known in sorted((*SECURITY.exact, *_CLUSTER_NAMES), key=len, reverse=True):
        if name.endswith(f".{known}"):
            return _alias_instead(name.removesuffix(f".{known}"), known, scopes)
    for word, table in CLIENTS.items():
        if table.find_key(name) is not None:
            return _meant(f"alias.{word}.{name}") + ", with a cluster's alias"
    return spelled(name, [*_TOP_NAMES, *(f"{alias}.bootstrap.servers" for alias in scopes.aliases)])


def _flow_instead(name: str, scopes: KeyScopes) -> str:
    itself = next((alias for alias in scopes.aliases if name.startswith(f"{alias}->{alias}.")), None)
    if itself is not None:
        return f"a flow between two clusters; {itself} would mirror itself"
    flows = [f"{source}->{target}" for source, target in scopes.flows]
    for known in sorted(CONNECTOR.exact, key=len, reverse=True):
        if name.endswith(f".{known}"):
            close = get_close_matches(name.removesuffix(f".{known}"), flows, n=1, cutoff=_CLOSE)
            if close:
                return _meant(f"{close[0]}.{known}")
            break
    shown = ", ".join(flows[:6]) + (", ..." if len(flows) > 6 else "")
    return f"a flow between two of the clusters: {shown or 'none, for clusters names fewer than two'}"


def _alias_instead(alias: str, known: str, scopes: KeyScopes) -> str:
    exact = [item for item in scopes.aliases if item.lower() == alias.lower()]
    close = exact or get_close_matches(alias, scopes.aliases, n=1, cutoff=_CLOSE)
    if close:
        why = "aliases are case sensitive" if exact else f"clusters names {', '.join(scopes.aliases)}"
        return _meant(f"{close[0]}.{known}") + f"; {why}"
    return f"an alias that clusters names: {', '.join(scopes.aliases) or 'none'}"


def spelled(name: str, candidates: Iterable[str], prefix: str = "", otherwise: str = _OR_WARN) -> str:
    """Words for a message: the candidate that was probably meant, or the place to look at."""
    close = get_close_matches(name, list(candidates), n=1, cutoff=_CLOSE)
    if close:
        return _meant(prefix + close[0])
    return f"a key that docs/configuration.md lists{otherwise}"


def _meant(key: str) -> str:
    return f"a known key ({GUESS} {key}?)"
