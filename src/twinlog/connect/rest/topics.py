"""The topics and the offsets of a connector: `/connectors/{name}/topics` (KIP-558) and `/offsets` (KIP-875).

`/connectors/{name}/twinlog/topics` takes requests about single topics. Paths of our own for a connector begin with
`/connectors/{name}/twinlog/`, because Connect lacks this path.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import Handler, RestApi, connector_of, resource
from twinlog.errors import RequestError

VERBS = ("pause", "resume", "restart-from", "skip-to", "accept-gap", "release")


class TopicControlResource:
    """Requests for topics, for any worker.

    The answering worker writes the request to the connector's target, and the worker of the connector fulfils it.
    """

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}/twinlog/topics"
        verbs = [resource(self._api, f"{one}/{verb}", {"PUT": self._asking(verb)}) for verb in VERBS]
        return [resource(self._api, one, {"GET": self.read}), *verbs]

    async def read(self, request: Request) -> Response:
        """Answer the states of topics; both clusters are read, which may take a while."""
        name = connector_of(request)
        return await self._api.forward_or_call(
            request, lambda: self._herder.topic_states(name), responses.json_response
        )

    def _asking(self, verb: str) -> Handler:
        async def ask(request: Request) -> Response:
            name = connector_of(request)
            body, value = await self._api.json(request)
            asked = bodies.topics_request(verb, value)
            return await self._api.forward_or_call(
                request, lambda: self._herder.ask_of_topics(name, asked), _answered, body
            )

        return ask


def _answered(found: object) -> Response:
    """Answer 202 for a request that is still to be done."""
    later = isinstance(found, dict) and found.get("result") in ("requested", "begun")
    return responses.json_response(found, 202 if later else 200)


class TopicsResource:
    """The topics of a connector since the last reset; an unknown connector has an empty list, as in Connect."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connectors/{connector:encoded}/topics"
        return [
            resource(self._api, one, {"GET": self.active}),
            resource(self._api, f"{one}/reset", {"PUT": self.reset}),
        ]

    async def active(self, request: Request) -> Response:
        self._need_tracking()
        name = connector_of(request)
        return await self._api.read_state(
            lambda: self._herder.active_topics(name), lambda topics: {name: {"topics": list(topics)}}
        )

    async def reset(self, request: Request) -> Response:
        self._need_tracking()
        if not self._api.topic_tracking_reset:
            raise RequestError(403, "Topic tracking reset is disabled.")
        name = connector_of(request)
        return await self._api.forward_or_call(
            request, lambda: self._herder.reset_active_topics(name), lambda _: responses.empty(202)
        )

    def _need_tracking(self) -> None:
        if not self._api.topic_tracking:
            raise RequestError(403, "Topic tracking is disabled.")


class OffsetsResource:
    """The stored offsets of a connector; only offsets of a stopped connector may be changed."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        methods = {"GET": self.read, "PATCH": self.alter, "DELETE": self.reset}
        return [resource(self._api, "/connectors/{connector:encoded}/offsets", methods)]

    async def read(self, request: Request) -> Response:
        name = connector_of(request)
        # The herder reads the topic to its end, which may take a while.
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.offsets(name),
            lambda stored: responses.json_response(responses.offsets(stored)),
        )

    async def alter(self, request: Request) -> Response:
        name = connector_of(request)
        body, value = await self._api.json(request)
        offsets = bodies.offsets_request(value)
        return await self._api.forward_or_call(
            request, lambda: self._herder.alter_offsets(name, offsets), _message, body
        )

    async def reset(self, request: Request) -> Response:
        name = connector_of(request)
        return await self._api.forward_or_call(request, lambda: self._herder.reset_offsets(name), _message)


def _message(text: str) -> Response:
    return responses.json_response({"message": text})
