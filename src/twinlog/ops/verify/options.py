"""The options of the format `twinlog-verify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.config import load
from twinlog.dataframes.options import flag
from twinlog.errors import OptionError
from twinlog.ops.verify.planner import VerifyOptions, expressions
from twinlog.settings.flow import FlowSettings

MOST_TASKS = 64
LARGEST = (1 << 63) - 1
_KNOWN = {
    "twinlog.config",
    "flow",
    "topics",
    "startingtimestamp",
    "endingtimestamp",
    "everyrecord",
    "ignoreforeign",
    "maxtasks",
}


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The flow to verify, the selected part of it, and the most tasks."""

    flow: FlowSettings
    options: VerifyOptions
    most_tasks: int = MOST_TASKS


def read_verify_options(given: Mapping[str, str]) -> VerifyRequest:
    """Read and check all options; names are found in any case. Raises OptionError and ConfigError."""
    found = {key.lower(): value for key, value in given.items()}
    unknown = sorted(found.keys() - _KNOWN)
    if unknown:
        raise OptionError(
            f"Option '{unknown[0]}' is unknown; the format twinlog-verify has {', '.join(sorted(_KNOWN))}"
        )
    path = found.get("twinlog.config")
    if path is None:
        raise OptionError("Option 'twinlog.config' must be specified: the file of the flow that is to be verified")
    flows = [flow for flow in load(path).flows if flow.copies]
    names = ", ".join(flow.name for flow in flows)
    wanted = found.get("flow")
    chosen = [flow for flow in flows if wanted in (None, flow.name)]
    if len(chosen) != 1:
        raise OptionError(f"Option 'flow' must be one of the flows that {path} has: {names or 'none is enabled'}")
    return VerifyRequest(
        chosen[0],
        VerifyOptions(
            expressions(found.get("topics", "")),
            _number(found, "startingtimestamp"),
            _number(found, "endingtimestamp"),
            flag(found, "everyrecord"),
            flag(found, "ignoreforeign"),
        ),
        _number(found, "maxtasks") or MOST_TASKS,
    )


def _number(found: Mapping[str, str], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        number = -1
    # Brokers take negative timestamps for something else.
    if not 0 <= number <= LARGEST:
        raise OptionError(f'For input string: "{value}"; option {name} is a whole number, not below 0')
    return number
