"""A JVM with a session of Spark SQL, beside a copier. It ends with the process that started it, however that ends."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.find_spark_home import _find_spark_home

from twinlog.errors import TransformError

ADDRESS_FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
START_S = 120.0
LOOK_S = 0.02
HEAP = "512m"
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SqlJvm:
    """Starts it; takes some seconds. Raises TransformError."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="twinlog-sql-")
        try:
            self._start(Path(self._folder.name))
        except BaseException:
            self.close()
            raise

    def _start(self, folder: Path) -> None:
        home, address = Path(_find_spark_home()), folder / "gateway"
        # The user's defaults are for flows: event logs, listeners, a master.
        (folder / "none.conf").touch()
        self._log = (folder / "log").open("w+b")
        command = [str(home / "bin" / "spark-submit"), "--properties-file", str(folder / "none.conf")]
        command += ["--conf", f"spark.driver.memory={HEAP}", "--conf", f"spark.driver.extraJavaOptions={_JAVA_OPTIONS}"]
        own = {
            ADDRESS_FILE_VARIABLE: str(address),
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
        }
        # It ends when its standard input does; Ctrl-C is for others.
        self.process = subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            env={**os.environ, **own},
            start_new_session=True,
        )
        deadline = time.monotonic() + START_S
        while not address.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise TransformError(f"Spark's JVM for transform.sql does not start: {self._last_line()}")
            time.sleep(LOOK_S)
        found = address.read_bytes()
        (port,), secret = struct.unpack("!i", found[:4]), found[8:].decode()
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        )
        self.java = self.gateway.jvm
        builder = self.java.org.apache.spark.sql.classic.SparkSession.builder().master("local[1]").appName("twinlog")
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext().setLogLevel("ERROR")

    def close(self) -> None:
        """End it; what it was asked for is lost."""
        with contextlib.suppress(AttributeError):
            self.gateway.close()
        with contextlib.suppress(AttributeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(AttributeError):
            self._log.close()
        self._folder.cleanup()

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else "it says nothing"


def reason(error: Py4JError | OSError) -> str:
    """What Spark says of an error, in one line."""
    if isinstance(error, Py4JJavaError):
        said = error.java_exception.getMessage() or error.java_exception.toString()
        return str(said).strip().splitlines()[0]
    return "Spark's JVM for transform.sql has ended"


def module(java: Any, name: str) -> Any:
    """A Scala object, by the name of its class."""
    found = java
    for part in f"{name}$".split("."):
        found = getattr(found, part)
    return getattr(found, "MODULE$")
