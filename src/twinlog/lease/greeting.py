"""The first message of each side of a channel: the caller's name, and the version of each side.

In a rolling upgrade, or with executors that have an older wheel, the versions differ. Then the task ends with an error
that names both versions, and the driver reports the same error.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog import __version__
from twinlog.errors import DriverLostError, MessageError, VersionMismatchError
from twinlog.lease.channel import Channel
from twinlog.lease.messages import VERSION, CopierHello, Hello, PlannerHello, Welcome, decode, parse, require


@dataclass(frozen=True, slots=True)
class IncompatiblePeer:
    """A caller of another version: a copier of `flow`, or the planner of `query`, as far as the caller names them."""

    flow: str | None
    query: str | None
    version: int
    text: str


def greet_as_copier(line: Channel, flow: str, copier: str) -> None:
    """Greet the driver as a copier. Raises VersionMismatchError, DriverLostError, MessageError."""
    _greet(line, CopierHello(VERSION, __version__, flow, copier), f"copier {copier}")


def greet_as_planner(line: Channel, query: str) -> None:
    """Greet the driver as a planner. Raises VersionMismatchError, DriverLostError, MessageError."""
    _greet(line, PlannerHello(VERSION, __version__, query), f"the planner of query {query}")


def _greet(line: Channel, hello: Hello, caller: str) -> None:
    try:
        line.send(hello)
        data = line.receive_bytes()
    except (OSError, EOFError) as error:
        raise DriverLostError(
            f"the driver did not answer {caller}, which has {_named(VERSION, __version__)}: it is ending, hangs, or is "
            "older"
        ) from error
    version, release = _version(data)
    if version != VERSION:
        raise VersionMismatchError(_mismatch(caller, (VERSION, __version__), (version, release)))
    require(decode(data), Welcome)


def receive_hello(line: Channel) -> Hello | IncompatiblePeer:
    """The driver's half: receive a greeting and answer with the driver's version; returns the caller.

    Raises OSError or EOFError when the caller has gone, MessageError when the message is no greeting.
    """
    data = line.receive_bytes()
    version, release = _version(data)
    line.send(Welcome(VERSION, __version__))
    if version != VERSION:
        value = parse(data)
        caller = f"copier {value['copier']}" if "copier" in value else f"the planner of query {value.get('query')}"
        text = _mismatch(caller, (version, release), (VERSION, __version__))
        return IncompatiblePeer(value.get("flow"), value.get("query"), version, text)
    hello = decode(data)
    if not isinstance(hello, CopierHello | PlannerHello):
        raise MessageError(f"{type(hello).__name__} came before a greeting")
    return hello


def _version(data: bytes) -> tuple[int, str]:
    """The protocol version and the release that a first message names.

    The version is 0 if the message lacks a version, as of the oldest release.
    """
    value = parse(data)
    version = value.get("version")
    return version if isinstance(version, int) else 0, str(value.get("release", "unknown"))


def _mismatch(caller: str, task: tuple[int, str], driver: tuple[int, str]) -> str:
    older = "the executors (or Spark's driver) have" if task[0] < driver[0] else "the driver has"
    return (
        f"{caller} has {_named(*task)}, its driver {_named(*driver)}: they cannot work together. {older} the older "
        "wheel: install the same one in both places, then start twinlog again"
    )


def _named(version: int, release: str) -> str:
    if not version:
        return "no protocol version (an earlier twinlog)"
    return f"protocol version {version} (twinlog {release})"
