"""Options that are true or false, as Scala's `toBoolean` reads them."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.errors import OptionError


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Raises OptionError for another value."""
    value = options.get(name, str(default)).strip()
    if value.lower() not in {"true", "false"}:
        raise OptionError(f'For input string: "{value}"; option {name} is true or false')
    return value.lower() == "true"
