"""Replaces a Python process that Spark starts: hands everything to the fork server and lives as long as its child.

A program of its own with few imports; run as `fork_client.py PYTHON ADDRESS ARGUMENTS`. If the module is foreign to
Spark, or the fork server is out of reach, PYTHON runs the arguments directly. The fork server ends the child when the
connection of this process ends, and ends the connection after the child.
"""

import json
import os
import signal
import socket
import sys

WAITING = "cat"
"""A program that waits for the end of its standard input, with a thirtieth of a Python's memory."""


def main() -> None:
    python, address, *arguments = sys.argv[1:]
    spark = arguments[0] == "-m" and arguments[1].startswith("pyspark.")
    line = _ask(address, arguments[1:]) if spark else None
    if line is None:
        os.execv(python, [python, *arguments])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The child has the streams of this process now, and Spark notices the end of the child by them.
    os.dup2(line.fileno(), 0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    try:
        os.execvp(WAITING, [WAITING])
    except OSError:
        while line.recv(64):
            pass


def _ask(address: str, arguments: list[str]) -> socket.socket | None:
    """The connection to the fork server, which has forked a child; None without a child."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode() + b"\n"
    try:
        line.connect(address)
        sent = socket.send_fds(line, [request], [0, 1, 2])
        line.sendall(request[sent:])
        # A fork server that is killed before it has read the request resets the connection.
        if line.recv(1):
            return line
    except OSError:
        pass
    line.close()
    return None


if __name__ == "__main__":
    main()
