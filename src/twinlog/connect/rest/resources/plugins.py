"""`/connector-plugins`: the classes that a configuration may name, their keys, and the check of a configuration."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twinlog.connect.rest import bodies, responses
from twinlog.connect.rest.api import RestApi, flag
from twinlog.connect.rest.resource import resource
from twinlog.errors import RequestError

_ALIAS_SUFFIX = "Connector"


class ConnectorPluginsResource:
    """The classes that this worker can run."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._herder = api.herder

    def routes(self) -> list[Route]:
        one = "/connector-plugins/{plugin:encoded}/config"
        return [
            resource(self._api, "/connector-plugins", {"GET": self.classes}),
            resource(self._api, one, {"GET": self.keys}),
            resource(self._api, f"{one}/validate", {"PUT": self.validate}),
        ]

    async def classes(self, request: Request) -> Response:
        only = flag(request, "connectorsOnly", default=True)
        return await self._api.read(
            lambda: self._herder.plugins(connectors_only=only), lambda found: [responses.plugin(one) for one in found]
        )

    async def keys(self, request: Request) -> Response:
        plugin, version = request.path_params["plugin"], request.query_params.get("version")
        return await self._api.read(
            lambda: self._herder.plugin_keys(plugin, version), lambda found: [responses.key(one) for one in found]
        )

    async def validate(self, request: Request) -> Response:
        """Answer 200 even for a wrong configuration: its errors are the answer."""
        _, value = await self._api.json(request)
        config = bodies.config_map(value)
        plugin: str = request.path_params["plugin"]
        included = config.get("connector.class")
        if included is not None and not _alias(included).endswith(_alias(plugin)):
            raise RequestError(400, f"Included connector type {included} does not match request type {plugin}")
        return await self._api.forward_or_call(
            request,
            lambda: self._herder.validate(plugin, config),
            lambda result: responses.json_response(responses.validation(result)),
            starting=True,
        )


def _alias(plugin: str) -> str:
    """A class with the suffix `Connector` removed, so that both forms of a name are equal."""
    return plugin.removesuffix(_ALIAS_SUFFIX) if len(plugin) > len(_ALIAS_SUFFIX) else plugin
