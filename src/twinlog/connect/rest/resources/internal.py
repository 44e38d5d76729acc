"""Requests between the workers of a group: store the configurations of tasks, fence earlier tasks.

Users are unable to send these requests: the group's session key signs them (KIP-507, Kafka class
InternalRequestSignature).
"""

from __future__ import annotations

import base64
import binascii
import hmac

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import RestApi, connector_of
from twinlog.connect.rest.forward import ALGORITHM, SIGNATURE, sign, supported
from twinlog.connect.rest.resource import RestMethod, resource
from twinlog.errors import RequestError


class InternalConnectResource:
    """Requests of other workers."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        """The route of `fence`; `TasksResource` has `POST /connectors/{name}/tasks`, as both share a path."""
        fence = RestMethod(self.fence, json=False, login=False)
        return [resource(self._api, "/connectors/{connector:encoded}/fence", {"PUT": fence})]

    async def put_task_configs(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        configs = bodies.config_list(bodies.parse(body))
        self._check(request, body)
        return await self._api.forward_or_call(
            request, lambda: self._herder.put_task_configs(name, configs), lambda _: responses.empty(204), body
        )

    async def fence(self, request: Request) -> Response:
        body, name = await self._api.body(request), connector_of(request)
        self._check(request, body)
        return await self._api.forward_or_call(
            request, lambda: self._herder.fence_tasks(name), lambda _: responses.empty(204), body
        )

    def _check(self, request: Request, body: bytes) -> None:
        """Raises RequestError unless a worker of this group has signed the body."""
        algorithms = self._api.signatures
        if algorithms is None:
            return
        algorithm, signature = request.headers.get(ALGORITHM), request.headers.get(SIGNATURE)
        if algorithm is None or signature is None:
            raise RequestError(400, "Internal request missing required signature")
        if not supported(algorithm):
            raise RequestError(400, f"Algorithm {algorithm[:50]} not available")
        try:
            given = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            raise RequestError(400, "The signature of this request is not in base64.") from None
        if algorithm not in algorithms:
            permitted = ", ".join(algorithms)
            message = f"This worker takes requests that are signed with [{permitted}], and not with '{algorithm}'."
            raise RequestError(400, f"{message} Let inter.worker.verification.algorithms be the same on every worker.")
        key = self._herder.session_key()
        if key is None:
            raise RequestError(503, "This worker is starting, and has not read the session key of its group yet.")
        if not hmac.compare_digest(sign(key, body, algorithm), given):
            raise RequestError(403, "Internal request contained invalid signature.")
