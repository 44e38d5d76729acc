"""The connection to SQL's JVM: its own client of py4j, and the reason for an error that Java raised."""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import MEMORY_COMMAND_NAME, Py4JError, Py4JJavaError, get_return_value, is_error


def open_gateway(address_file: Path) -> JavaGateway:
    """The gateway to the JVM that has written its port and its secret into a file."""
    found = address_file.read_bytes()
    (port,), secret = struct.unpack("!i", found[:4]), found[8:].decode()
    return _Gateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True))


class _Gateway(JavaGateway):  # type: ignore[misc]
    def _create_gateway_client(self) -> GatewayClient:
        return _Client(gateway_parameters=self.gateway_parameters)


class _Client(GatewayClient):  # type: ignore[misc]
    """Raises the exceptions of the JVM.

    In a process with a SparkSession, pyspark raises them for every gateway, and asks that session's JVM about an object
    of this JVM (`pyspark.errors.exceptions.captured`).

    The client releases Java's objects before its next command. Python's garbage collector runs in any thread, with any
    lock held, and would wait there for a JVM that hangs.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._unused: deque[str] = deque()
        super().__init__(*args, **settings)

    def garbage_collect_object(self, target_id: str) -> None:
        self._unused.append(target_id)

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):
            with contextlib.suppress(IndexError):
                while True:
                    super().garbage_collect_object(self._unused.popleft())
        answer = super().send_command(command, retry, binary)
        if not binary and len(answer) > 1 and is_error(answer)[0]:
            get_return_value(answer, self)
        return answer


def reason(error: Exception) -> str:
    """Spark's reason for an error, on a single line."""
    if isinstance(error, Py4JJavaError):
        try:
            thrown = error.java_exception
            # Reflection wraps the exception.
            while not thrown.getMessage() and thrown.getCause() is not None:
                thrown = thrown.getCause()
            words = thrown.getMessage() or thrown.toString()
        except (Py4JError, OSError):
            return "it has ended"
        return str(words).strip().splitlines()[0]
    # Above Java's trace py4j has its own call; the error is the first line of the trace.
    words = str(error).partition(" Trace:\n")[2].removeprefix("py4j.Py4JException: ").strip() or str(error).strip()
    return str(words).splitlines()[0] if words else "it has ended"
