"""The error of an unusable key store or trust store; the module that reads stores is imported only if a store is
named."""

from __future__ import annotations

from typing import Literal

from twinlog.config.text.values import ValueRefusedError

StoreType = Literal["PEM", "PKCS12", "JKS"]
Setting = Literal["location", "password", "key.password", "key", "certificate.chain", "certificates"]
"""The setting of a store that is wrong, by the end of its key."""


class StoreError(ValueRefusedError):
    """A store is unusable: the problem, the expected form, and the wrong setting."""

    def __init__(self, setting: Setting, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.setting = setting
