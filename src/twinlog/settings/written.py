"""Names, at a field of the settings, the configuration key that fills it; messages take the key from there, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, get_args, get_type_hints


class WrittenAs(NamedTuple):
    """The key of a field.

    `switch` is the key that turns on the field's work, if the work can be turned off: the field holds the seconds
    between two rounds of the work, None if it is off. A `plain` field holds the written value in the key's type, None
    if its default is None and the value is missing; any other field takes more than the value of its key.
    """

    key: str
    switch: str = ""
    plain: bool = True


def out_of(key: str) -> WrittenAs:
    """The key of a field that takes more than the value of its key."""
    return WrittenAs(key, plain=False)


def every(work: str) -> WrittenAs:
    """The key of a field with the seconds between two rounds of work; the field is None if the work is off."""
    return WrittenAs(f"{work}.interval.seconds", f"{work}.enabled")


@cache
def written(kind: type) -> Mapping[str, WrittenAs]:
    """The keys of a settings class, by the field; a field that no key fills is left out."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        how = next((note for note in get_args(hint) if isinstance(note, WrittenAs)), None)
        if how is not None:
            found[name] = how
    return MappingProxyType(found)


def key_of(kind: type, field: str) -> str:
    """The key that fills a field."""
    return written(kind)[field].key


def switch_of(kind: type, field: str) -> str:
    """The key that turns off the work of a field."""
    return written(kind)[field].switch
