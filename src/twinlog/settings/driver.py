"""Where a driver waits for its copiers, and what they call it by: these two differ behind NAT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from twinlog.settings.written import WrittenAs


@dataclass(frozen=True, slots=True)
class DriverListener:
    """The lease server's place on a cluster, as `spark.driver.host`, `.bindAddress` and `.port` are Spark's own.

    What is empty follows those two; port 0 is any that is free.
    """

    host: Annotated[str, WrittenAs("twinlog.driver.host")] = ""
    bind_address: Annotated[str, WrittenAs("twinlog.driver.bind.address")] = ""
    port: Annotated[int, WrittenAs("twinlog.driver.port")] = 0
