"""Free loopback ports that stay ours for the life of this process, across restarts of the broker that uses them.

They lie below the kernel's range for outgoing connections: a port from within that range could be taken by a client
while the broker is down, and a client that retries such a port can even connect to itself.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from harness.errors import HarnessError

LOWEST = 12_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_held: dict[int, IO[str]] = {}
# Which ports others have is no choice of a test's: no seed repeats that.
_random = random.SystemRandom()


def claim_port() -> int:
    """A port on 127.0.0.1 that nothing listens on and no other harness process has claimed.

    The claim is a lock on a small file in the temporary directory; it ends with this process or by `release_port`.
    """
    claims = Path(tempfile.gettempdir(), f"twinlog-ports-{os.getuid()}")
    claims.mkdir(exist_ok=True)
    for _ in range(500):
        port = _random.randrange(LOWEST, _highest())
        if port in _held:
            continue
        handle = (claims / str(port)).open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            handle.close()
            continue
        _held[port] = handle
        return port
    raise HarnessError("No free loopback port found in 500 tries. End some of the processes listening on 127.0.0.1.")


def release_port(port: int) -> None:
    """Give a claimed port back; unknown ports are ignored."""
    handle = _held.pop(port, None)
    if handle is not None:
        handle.close()


def _highest() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_000
