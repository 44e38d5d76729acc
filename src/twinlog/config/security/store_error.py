"""Why a key store or a trust store cannot be used; what reads stores is only imported where one is named."""

from __future__ import annotations

from typing import Literal

from twinlog.config.refused import ValueRefusedError

StoreType = Literal["PEM", "PKCS12", "JKS"]
Setting = Literal["location", "password", "key.password", "key", "certificate.chain", "certificates"]
"""The setting of a store that is wrong, by the end of its key."""


class StoreError(ValueRefusedError):
    """A store cannot be used: what is wrong with it, what would be right, and which setting is to blame."""

    def __init__(self, setting: Setting, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.setting = setting
