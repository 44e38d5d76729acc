"""A large batch of a request goes to the socket out of its own memory."""

from __future__ import annotations

from twinlog.kafka.protocol.layout import SENT_ALONE_BYTES, Part
from twinlog.kafka.protocol.produce import RawProduce


def produce(*batches: Part) -> RawProduce:
    return RawProduce({"t": list(enumerate(batches))})


def test_large_batches_are_not_copied_and_small_batches_are_joined() -> None:
    large = memoryview(bytearray(SENT_ALONE_BYTES))
    batches: list[Part] = [b"a" * 100, large, b"b" * 100, b"c" * (SENT_ALONE_BYTES - 1), large]
    parts = produce(*batches).parts(1, "here")
    assert [part is large for part in parts] == [False, True, False, True, False]
    assert b"".join(parts) == produce(*batches).frame(1, "here")


def test_a_request_holds_no_batch_once_its_parts_are_made() -> None:
    request = produce(b"a" * SENT_ALONE_BYTES)
    request.parts(1, "here")
    assert request.topics == {"t": [(0, b"")]}
