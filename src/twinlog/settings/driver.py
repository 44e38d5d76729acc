"""The address at which a driver listens for copiers, and the address that copiers use; behind NAT both differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from twinlog.settings.written import WrittenAs


@dataclass(frozen=True, slots=True)
class DriverListener:
    """The lease server's address on a cluster, like Spark's own `spark.driver.host`, `.bindAddress` and `.port`.

    An empty `host` or `bind_address` follows Spark's setting; port 0 is any free port.
    """

    host: Annotated[str, WrittenAs("twinlog.driver.host")] = ""
    bind_address: Annotated[str, WrittenAs("twinlog.driver.bind.address")] = ""
    port: Annotated[int, WrittenAs("twinlog.driver.port")] = 0
