"""The https listeners of a worker, from its settings to what a client meets."""

from __future__ import annotations

import http.client
from dataclasses import replace

import pytest

from harness.certificates import Certified, authority
from tests.unit.connect.serving import Client, serving
from twinlog.connect.worker import rest_tls
from twinlog.settings import worker
from twinlog.settings.tls import ClientAuth, TlsSettings, tls_context
from twinlog.settings.worker import ListenerAddress, RestSettings

ABOVE = authority()
OTHERS = authority("Another authority")
LISTENER = ListenerAddress("https", "localhost", 0)


def shown(by: Certified, trusts: Certified = ABOVE) -> TlsSettings:
    """The settings of who shows a certificate of `by`."""
    own = by.issue("somebody", ["localhost"])
    return TlsSettings(trusts.pem, own.chain_pem, own.key_pem())


NONE = TlsSettings(ABOVE.pem)


@pytest.mark.parametrize(
    ("client_auth", "client", "let_in"),
    [
        ("none", NONE, True),
        ("none", shown(OTHERS), True),
        ("requested", NONE, True),
        ("requested", shown(ABOVE), True),
        ("requested", shown(OTHERS), False),
        ("required", NONE, False),
        ("required", shown(ABOVE), True),
        ("required", shown(OTHERS), False),
    ],
    ids=map(str, range(8)),
)
def test_who_is_let_in(client_auth: ClientAuth, client: TlsSettings, let_in: bool) -> None:
    # Others trust the worker's authority, and it does not trust theirs.
    client = replace(client, authorities=ABOVE.pem)
    settings = worker.RestSettings(https=shown(ABOVE), https_client_auth=client_auth)
    with serving(RestSettings((LISTENER,)), tls=rest_tls(settings), client_tls=tls_context(client)) as found:
        if let_in:
            assert found.get("/").status == 200
        else:
            with pytest.raises((OSError, http.client.HTTPException)):
                found.get("/")


def test_the_listeners_for_administrators_have_their_own() -> None:
    settings = worker.RestSettings(https=shown(ABOVE), admin_https=shown(OTHERS))
    rest = RestSettings((LISTENER,), admin_listeners=(LISTENER,))
    with serving(rest, tls=rest_tls(settings), client_tls=tls_context(NONE)) as client:
        assert client.get("/").status == 200
        (admin,) = client.server.admin_urls
        theirs = Client(admin, client.herder, client.server, tls_context(TlsSettings(OTHERS.pem)))
        assert theirs.get("/admin/loggers/root").status == 200
        with pytest.raises(OSError, match="certificate"):
            client.ask("GET", "/admin/loggers/root", url=admin)


def test_without_https_there_is_none() -> None:
    tls = rest_tls(worker.RestSettings())
    assert (tls.public, tls.admin) == (None, None)
