"""Replaces a Python process that Spark starts: hands everything to the fork server and lives as long as its child.

A program of its own with few imports; run as `fork_client.py PYTHON ADDRESS ARGUMENTS`. If the module is foreign to
Spark, or the fork server is out of reach, PYTHON runs the arguments directly.
"""

import json
import os
import signal
import socket
import sys
from typing import Any


def main() -> None:
    python, address, *arguments = sys.argv[1:]
    spark = arguments[0] == "-m" and arguments[1].startswith("pyspark.")
    # The child may write to Spark before its process id is here. A signal of that moment waits for the handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    line = _ask(address, arguments[1:]) if spark else None
    answer = line.recv(64) if line is not None else b""
    if line is None or not answer:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.execv(python, [python, *arguments])
    pid = int(answer)

    def end(number: int, frame: Any) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    # The child has these streams now, and Spark notices the end of the child by them.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    while line.recv(64):
        pass


def _ask(address: str, arguments: list[str]) -> socket.socket | None:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode() + b"\n"
    try:
        line.connect(address)
        sent = socket.send_fds(line, [request], [0, 1, 2])
        line.sendall(request[sent:])
    except OSError:
        line.close()
        return None
    return line


if __name__ == "__main__":
    main()
