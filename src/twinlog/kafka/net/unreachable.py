"""Explains why a broker is unreachable, and names the way out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kafka.errors import (
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
)

from twinlog.kafka.auth.refusal import PROTOCOL, NoTokenError
from twinlog.kafka.protocol.error_codes import in_words

_TLS_RECORD = (0x14, 0x15, 0x16)
"""The first byte of a record of TLS: change of cipher, alert, handshake. The major version, 3, follows."""


def unreachable(
    failures: Mapping[str, BaseException], servers: tuple[str, ...], protocol: str, timeout_s: float
) -> str:
    """The error of each bootstrap server that was tried; `failures` by `host:port`, `protocol` as Kafka names it."""
    if not failures:
        return f"none of {', '.join(servers)} answered within {timeout_s:g} s"
    reasons = "; ".join(f"{address}: {reason(error, protocol)}" for address, error in sorted(failures.items()))
    return f"no broker can be reached: {reasons}"


def note_failure(failures: dict[str, BaseException], address: str, error: BaseException) -> None:
    """Keep the reason why a connection to `host:port` failed; a timeout explains less than the previous reason.

    The last attempt before the end of a caller's own time is short, and must not hide a refused login.
    """
    if address not in failures or not _timed_out(error):
        failures[address] = error


def reasons(failures: Iterable[Mapping[str, BaseException]], protocol: str, *, connected: bool) -> str:
    """The reason why each broker is unreachable, by the `failures` of several managers of connections.

    `connected` when the cluster has answered before, and so the protocol is right.
    """
    errors: dict[str, BaseException] = {}
    for some in failures:
        for address, error in some.items():
            note_failure(errors, address, error)
    texts = []
    for address, error in sorted(errors.items()):
        broke = connected and "disconnected" in str(error)
        texts.append(f"{address}: {'the connection broke' if broke else reason(error, protocol)}")
    return "; ".join(texts) or "no answer"


def reason(error: BaseException, protocol: str) -> str:
    """The reason why a connection failed."""
    if isinstance(error, NoTokenError):
        return error.sentence
    text = str(error)
    frame = re.search(r"a frame of (\d+) bytes", text)
    if frame is not None:
        first = int(frame[1]).to_bytes(4, "big")
        if _begins_like_tls(first):
            return f"the port uses TLS, and {PROTOCOL} is {protocol}; set SSL or SASL_SSL, or use another port"
        if first == b"HTTP":
            return "the port answers in HTTP; is this a broker?"
    if isinstance(error, IncompatibleBrokerVersion):
        return "it is not a broker for clients; is it the port of a controller?"
    if "ECONNREFUSED" in text:
        return "connection refused; is the broker running, and is this its port?"
    if "DNS" in text:
        return "the host name is not known"
    if "EHOSTUNREACH" in text or "ENETUNREACH" in text:
        return "no route to that host"
    if any(sign in text for sign in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "record layer")):
        return f"the port does not use TLS, and {PROTOCOL} is {protocol}"
    if _timed_out(error):
        return "no answer in time; is the broker alive, and does a firewall drop packets?"
    if isinstance(error, IllegalSaslStateError):
        return f"the port does not want a login, and {PROTOCOL} is {protocol}"
    if "socket disconnected" in text or "ECONNRESET" in text:
        return f"it closes the connection; does the port want another {PROTOCOL} than {protocol}?"
    return (
        in_words(error) or type(error).__name__ if isinstance(error, KafkaError) else f"{type(error).__name__}: {text}"
    )


_THROTTLES = "throttles this client, as it is over a quota"


def throttles(node: int | None) -> str:
    """The trouble of a broker that is healthy, and delays requests by a quota."""
    return f"broker {node} {_THROTTLES}"


def is_throttle(trouble: str) -> bool:
    """Whether the trouble of a partition, perhaps from another process, is only a throttle."""
    return _THROTTLES in trouble


def _timed_out(error: BaseException) -> bool:
    # The text of a failed handshake has these words.
    return isinstance(error, KafkaTimeoutError | RequestTimedOutError) or "timed out" in str(error)


def _begins_like_tls(first: bytes) -> bool:
    return first[0] in _TLS_RECORD and first[1] == 3
