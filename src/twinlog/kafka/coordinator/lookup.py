"""Finds the brokers that coordinate groups or transactional ids: for many names at a time, or for a single name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from kafka.protocol.metadata.find_coordinator import CoordinatorType, FindCoordinatorRequest

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import Code

T = TypeVar("T")

GROUP, TRANSACTION = CoordinatorType.GROUP, CoordinatorType.TRANSACTION

CHUNK = 100
"""Names per request."""

AT_ONCE = 32
"""Requests in flight, of the 64 that a connection may have."""

MOST_NODES = 10_000
"""Up to so many coordinators are cached before the coordinators of absent names are dropped."""

MOVED = frozenset({Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
"""Codes after which the coordinator must be found again."""

_SEVERAL = 4
"""The version since which a request may have many names (KIP-699, Kafka 3.0)."""


class Coordinators:
    """The coordinators of names of a kind; `nodes` has the known coordinators.

    `timeout_s` None is the client's own timeout.
    """

    def __init__(self, client: ClusterClient, kind: CoordinatorType, *, timeout_s: float | None = None) -> None:
        self.nodes: dict[str, int] = {}
        self._client = client
        self._kind = kind
        self._timeout_s = timeout_s

    async def find_nodes(self, names: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The coordinator of each name, and the error codes of names that lack a coordinator now.

        A name that `nodes` lacks is looked up. Raises ClusterError when all brokers fail to answer.
        """
        if len(self.nodes) > max(MOST_NODES, 2 * len(names)):
            # Names come and go.
            self.nodes = {name: self.nodes[name] for name in names if name in self.nodes}
        # Another coroutine may drop some names meanwhile.
        found = {name: self.nodes[name] for name in names if name in self.nodes}
        unknown = [name for name in names if name not in found]
        if not unknown:
            return found, {}
        several = self._client.supports(FindCoordinatorRequest.API_KEY, _SEVERAL)
        chunks = list(chunked(unknown, CHUNK if several else 1))
        requests = [(None, self._request(chunk)) for chunk in chunks]
        wrong: dict[str, int] = {}
        answers = await ask_at_once(self._client, self._client.send_request, requests, self._timeout_s)
        for chunk, answer in zip(chunks, answers, strict=True):
            named = [(chunk[0], answer)] if len(chunk) == 1 else [(one.key, one) for one in answer.coordinators]
            for name, one in named:
                if one.error_code:
                    wrong[name] = int(one.error_code)
                else:
                    found[name] = self.nodes[name] = int(one.node_id)
        # A name that the answer leaves out lacks a coordinator, too.
        wrong.update(dict.fromkeys(set(unknown) - found.keys() - wrong.keys(), int(Code.COORDINATOR_NOT_AVAILABLE)))
        # A coordinator may be a new broker, which the metadata must have before it can be asked.
        await self._client.refresh([])
        return found, wrong

    def _request(self, names: Sequence[str]) -> Any:
        kind = int(self._kind)
        if len(names) == 1:
            return FindCoordinatorRequest(key=names[0], key_type=kind, max_version=_SEVERAL - 1)
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(names), min_version=_SEVERAL)


class Coordinator:
    """The coordinator of a name, on its present broker. `check(code)` raises the error of a code."""

    def __init__(
        self,
        client: ClusterClient,
        kind: CoordinatorType,
        name: str,
        check: Callable[[int], None],
        *,
        timeout_s: float | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._check = check
        self._known = Coordinators(client, kind, timeout_s=timeout_s)

    async def send_request(self, request: Any, timeout_s: float, *, apart: bool = False) -> Any:
        """Send a request to the coordinator, with `apart` on the connection for data.

        Raises ClusterError and the errors of `check`.
        """
        found, wrong = await self._known.find_nodes([self._name])
        if wrong:
            self._check(wrong[self._name])
        send = self._client.send if apart else self._client.send_request
        try:
            return await send(request, found[self._name], timeout_s)
        except RefusedError:
            raise
        except ClusterError:
            self.reset_node()
            raise

    def reset_node(self) -> None:
        """Find the coordinator again before the next request."""
        self._known.nodes.clear()


async def ask_at_once(
    client: ClusterClient,
    send: Callable[..., Coroutine[Any, Any, Any]],
    requests: Iterable[tuple[int | None, Any]],
    timeout_s: float | None,
) -> list[Any]:
    """Send many requests, each with its broker, at once; a broker answers the requests of a connection in turn.

    Raises the first error.
    """
    answers: list[Any] = []
    for some in chunked(requests, AT_ONCE):
        asked = [client.loop.spawn(send, request, node, timeout_s) for node, request in some]
        answers += await client.loop.gather(asked)
    return answers


def chunked(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Items, in order, in portions of `size`."""
    rest = iter(items)
    while part := tuple(islice(rest, size)):
        yield part
