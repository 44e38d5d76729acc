"""The threads of a driver share one heap of the C library."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import threading
from twinlog.cli.heap import share_heap

share_heap()
together = threading.Barrier(4)

def work():
    # Python's own allocator takes pieces of up to 512 bytes.
    pieces = [bytes(2000) for _ in range(100)]
    together.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open("/proc/self/maps") as maps:
    lines = [line.split() for line in maps]
# glibc reserves 64 MB for the heap of a thread, at a multiple of 64 MB, and uses its begin.
begins = [int(line[0].split("-")[0], 16) for line in lines if len(line) == 5 and line[1] == "rw-p"]
print(sum(begin % (64 << 20) == 0 for begin in begins))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
@pytest.mark.parametrize(("given", "shared"), [(None, True), ("8", False)])
def test_no_thread_has_a_heap_of_its_own_unless_the_user_wants_it(given: str | None, shared: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"}
    if given is not None:
        environment["MALLOC_ARENA_MAX"] = given
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment, timeout=300
    )
    assert (int(done.stdout) == 0) is shared
