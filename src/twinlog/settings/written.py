"""Names, at a field of the settings, the configuration key that fills it; messages take the key from there, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, get_args, get_type_hints


class WrittenAs(NamedTuple):
    """The key of a field.

    `switch` is the key that turns on what the field is for, if it has one. The field of a `plain` one holds what is
    written, as a value of the key's type; others take more than that.
    """

    key: str
    switch: str = ""
    plain: bool = True


def out_of(key: str) -> WrittenAs:
    """Of a field that takes more than the value of its key."""
    return WrittenAs(key, plain=False)


def every(work: str) -> WrittenAs:
    """Of a field with the seconds between two rounds of some work, None where it is switched off."""
    return WrittenAs(f"{work}.interval.seconds", f"{work}.enabled", plain=False)


@cache
def written(kind: type) -> Mapping[str, WrittenAs]:
    """How the fields of a settings class are written, by the field; those that no key fills are missing."""
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
    """The key that turns off what a field is for."""
    return written(kind)[field].switch
