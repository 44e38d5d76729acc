"""Clients of several threads start at the same time; each must be able to read what the others read first."""

from __future__ import annotations

import gc
import itertools
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import KafkaProtocolError
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.protocol.schemas.fields.struct import StructField

from twinlog.kafka.net import frames
from twinlog.kafka.net.frames import FrameParser

THREADS = 8
ROUNDS = 20
VERSION = 3


@pytest.fixture
def busy_interpreter() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    # What other tests left is not looked at each time.
    gc.freeze()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
    gc.unfreeze()
    forget_what_was_made()


def read_one(start: threading.Barrier, failed: list[BaseException]) -> None:
    parser = FrameParser(client_id="test")
    header = RequestHeader(request_api_key=10, request_api_version=VERSION, correlation_id=1, client_id="test")
    parser.in_flight_requests.append(header)
    body = FindCoordinatorResponse(
        throttle_time_ms=0, error_code=0, error_message=None, node_id=1, host="h", port=1, version=VERSION
    ).encode(version=VERSION)
    start.wait()
    try:
        parser.receive_bytes(memoryview(bytearray(struct.pack(">ib", 1, 0) + body)))
    except BaseException as error:
        failed.append(error)


def forget_what_was_made() -> None:
    FindCoordinatorResponse._VERSIONS.clear()
    FindCoordinatorResponse._struct._compiled_encoders.clear()
    ResponseClassRegistry.register_response_class(FindCoordinatorResponse)
    frames._compiled.clear()


def test_the_class_of_a_response_outlives_threads_that_make_it_together(
    busy_interpreter: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays, compile_ = itertools.cycle((0.0, 0.003)), StructField.emit_decode_from

    def compile_later(*args: Any, **how: Any) -> Any:
        time.sleep(next(delays))
        return compile_(*args, **how)

    monkeypatch.setattr(StructField, "emit_decode_from", compile_later)
    for _ in range(ROUNDS):
        forget_what_was_made()
        start = threading.Barrier(THREADS)
        failed: list[BaseException] = []
        threads = [threading.Thread(target=read_one, args=(start, failed)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        # A dead one raises ReferenceError.
        assert ResponseClassRegistry._response_class_registry[10].__name__
        # A decoder that was compiled with it fails from then on.
        read_one(threading.Barrier(1), failed)
        assert failed == []


def test_a_response_that_cannot_be_read_ends_its_connection_and_no_thread() -> None:
    parser = FrameParser(client_id="test")
    header = RequestHeader(request_api_key=10, request_api_version=VERSION, correlation_id=1, client_id="test")
    parser.in_flight_requests.append(header)
    with pytest.raises(KafkaProtocolError, match="a response cannot be read: "):
        parser.receive_bytes(memoryview(bytearray(struct.pack(">ib", 1, 0) + b"\x00")))
