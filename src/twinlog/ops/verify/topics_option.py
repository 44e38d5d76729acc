"""Which of a cluster's topics an option names."""

from __future__ import annotations

from collections.abc import Collection

from twinlog.errors import OptionError, PatternError
from twinlog.mirror.topology.patterns import compile_list, spelled_out
from twinlog.model.types import TopicName


def expressions(text: str) -> tuple[str, ...]:
    """The Java expressions of such an option, which stand between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def named(wanted: tuple[str, ...], topics: Collection[TopicName]) -> tuple[list[TopicName], str]:
    """The topics that Java expressions match, and what is lacking: names that are spelled out, or all of `wanted`.

    Raises OptionError for what is no expression, or takes too long.
    """
    try:
        compiled = compile_list(wanted)
        found = [] if compiled is None else [name for name in sorted(topics) if compiled.matches(name)]
    except PatternError as error:
        raise OptionError(f"topics: {error}") from None
    lacking = sorted(name for name in spelled_out(wanted) if name not in topics)
    return found, ", ".join(lacking) or ("" if found else ", ".join(wanted))
