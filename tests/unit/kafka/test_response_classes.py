"""Clients of several threads start at the same time; each must be able to read what the others read first."""

from __future__ import annotations

import gc
import struct
import sys
import threading
from collections.abc import Iterator

import pytest
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.metadata import FindCoordinatorResponse

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
    FindCoordinatorResponse._VERSIONS.clear()
    ResponseClassRegistry.register_response_class(FindCoordinatorResponse)


def read_one(start: threading.Barrier) -> None:
    parser = FrameParser(client_id="test")
    header = RequestHeader(request_api_key=10, request_api_version=VERSION, correlation_id=1, client_id="test")
    parser.in_flight_requests.append(header)
    body = FindCoordinatorResponse(
        throttle_time_ms=0, error_code=0, error_message=None, node_id=1, host="h", port=1, version=VERSION
    ).encode(version=VERSION)
    start.wait()
    parser.receive_bytes(memoryview(bytearray(struct.pack(">ib", 1, 0) + body)))


def test_the_class_of_a_response_outlives_threads_that_make_it_together(busy_interpreter: None) -> None:
    for _ in range(ROUNDS):
        FindCoordinatorResponse._VERSIONS.clear()
        ResponseClassRegistry.register_response_class(FindCoordinatorResponse)
        start = threading.Barrier(THREADS)
        threads = [threading.Thread(target=read_one, args=(start,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        # A dead one raises ReferenceError.
        assert ResponseClassRegistry._response_class_registry[10].__name__
