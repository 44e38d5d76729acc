"""Without a pause between fetches, records leave for the target before the next fetch leaves for the source."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from harness.virtual import connection
from harness.virtual.requests import FETCH, PRODUCE
from tests.unit.copier.copied import world


def test_records_are_sent_before_the_next_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    received = connection.Connection.received

    def note(self: connection.Connection, sock: Any, data: bytes) -> None:
        (key,) = struct.unpack_from(">h", data, 4)
        if key in (FETCH, PRODUCE):
            sent.append(key)
        received(self, sock, data)

    monkeypatch.setattr(connection.Connection, "received", note)
    with world(producer={"linger_ms": 0}) as here:
        here.begin()
        here.write(b"first")
        here.until(lambda: here.copied() == [b"first"])
        here.pass_by(0.1)
        sent.clear()
        here.write(b"second")
        here.until(lambda: here.copied() == [b"first", b"second"])
        assert sent == [PRODUCE, FETCH]
