"""Many clients that list all connectors with their status and configuration, each as fast as it gets answers.

`python -m bench.connect.listing URL CLIENTS WARM_UP_S SECONDS` prints one line of JSON: the milliseconds of each
list in order without the warm-up, and the number of connectors and bytes of the last list.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

PATH = "/connectors?expand=status&expand=info"


async def _list(url: str, clients: int, warm_up_s: float, seconds: float) -> dict[str, object]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    request = f"GET {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n".encode()
    begin = time.monotonic() + warm_up_s
    end = begin + seconds
    took: list[float] = []
    last = b""

    async def client() -> None:
        nonlocal last
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        while (asked := time.monotonic()) < end:
            writer.write(request)
            last = await _answer(reader)
            if asked >= begin:
                took.append((time.monotonic() - asked) * 1000)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return {"ms": sorted(took), "connectors": len(json.loads(last)), "bytes": len(last)}


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """The body of one answer; raises ValueError for one that is no success."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, *lines = head.rstrip().split("\r\n")
    if status.split()[1] != "200":
        raise ValueError(status)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers["content-length"]))
    chunks = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)


def main() -> None:
    url, clients, warm_up_s, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(_list(url, int(clients), float(warm_up_s), float(seconds)))))


if __name__ == "__main__":
    main()
