"""`twinlog console`: the console of flows that run elsewhere, on a listener of its own."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.clock import SYSTEM
from twinlog.config.console import load_open_id
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.text.values import ValueRefusedError, parse_listener
from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_to_stderr, print_error, print_warnings
from twinlog.console.exit_codes import FINE, UNREACHABLE, WRONG, failure_text
from twinlog.console.flow_files import FlowsOfFile, read_flow_file
from twinlog.console.options import FILE_HELP, Secrets
from twinlog.errors import ListenError, OptionError
from twinlog.errors.message_ids import with_id
from twinlog.ops.connectors.rest import URL, TlsFiles, access
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.worker import ListenerAddress, is_loopback

if TYPE_CHECKING:
    from twinlog.connect.rest.users import Users
    from twinlog.ui.site import ConsoleSettings
    from twinlog.ui.sources import ConsoleSources

log = logging.getLogger("twinlog")

DEFAULT_LISTEN = "127.0.0.1:8081"
_LOOK_S = 3600.0


def parse_listen(text: str, *, tls: bool) -> ListenerAddress:
    """The address of `--listen`, for example `127.0.0.1:8081` or `[::1]:8081`. Raises BadParameter."""
    scheme = "https" if tls else "http"
    try:
        found = parse_listener(text if "://" in text else f"{scheme}://{text.strip()}")
    except ValueRefusedError:
        found = None
    if found is None:
        raise typer.BadParameter(f"{text!r}; write HOST:PORT, for example {DEFAULT_LISTEN}", param_hint="--listen")
    if found.scheme != scheme:
        raise typer.BadParameter("https and --tls-cert belong together", param_hint="--listen")
    return found


def read_files(paths: Sequence[Path], secrets: Path | None) -> list[FlowsOfFile]:
    """The flows of each file; the files of connectors follow the file of their worker. Raises ConfigError."""
    found: list[FlowsOfFile] = []
    group: list[Path] = []
    for path in [*paths, None]:
        if path is not None and group and kind_of(path) is FileKind.CONNECTOR:
            group.append(path)
            continue
        if group:
            found.append(read_flow_file(group[0], group[1:], secrets))
        group = [] if path is None else [path]
    return found


def console(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Serve the console at this address.")
    ] = DEFAULT_LISTEN,
    users: Annotated[
        Path | None,
        typer.Option(
            "--users",
            metavar="FILE",
            help="Require a login of a user of this file: properties, a name and a password or its hash in each.",
            show_default=False,
        ),
    ] = None,
    oauth: Annotated[
        Path | None,
        typer.Option(
            "--oauth",
            metavar="FILE",
            help="Require a login at the issuer of OpenID Connect of this file: properties, keys "
            "twinlog.console.oauth.*.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="PEM", help="Serve over TLS with this certificate.", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="PEM", help="The key of the certificate.", show_default=False),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only show, and leave out all actions.")] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            envvar=URL,
            help="Show the connectors of the Connect worker at this address, too.",
            show_default=False,
        ),
    ] = None,
    cacert: Annotated[
        Path | None,
        typer.Option("--cacert", metavar="PEM", help="Trust these authorities for --url.", show_default=False),
    ] = None,
    no_records: Annotated[
        bool, typer.Option("--no-records", help="Leave out the page with keys and values of records.")
    ] = False,
    folder: Annotated[
        Path,
        typer.Option(
            "--output-dir",
            metavar="DIR",
            help="Write the files of migrations into this folder. Default: the working directory.",
            show_default=False,
            exists=True,
            file_okay=False,
            writable=True,
        ),
    ] = Path(),
    secrets: Secrets = None,
) -> None:
    """Show flows in a browser, wherever they run, and steer their topics.

    All figures come from the clusters, as for `twinlog status`, also for flows of MirrorMaker 2. Clusters are read only
    while a browser shows the console. Without --users and --oauth it serves only this machine. Without FILE the console
    begins with a migration: it takes the addresses of two clusters, and writes and runs the file.

    Exit codes: 0 Ctrl-C (SIGINT) or SIGTERM ended the console; 2 a FILE or an option is wrong; 3 another process has
    the address.

    Example: twinlog console mm2.properties

    Example: twinlog console --output-dir migrations

    Example: twinlog console connect-distributed.properties source.json --listen 0.0.0.0:8081 --users users.properties
    """
    address = parse_listen(listen, tls=tls_cert is not None)
    context = _tls(tls_cert, tls_key)
    with ends_if_wrong(WRONG):
        known = read_files(files or [], secrets)
        login = _users(users)
        issuer = _issuer(oauth)
        worker = None if url is None else access(url, TlsFiles(cacert=cacert), warn=log.warning)
    for one in known:
        print_warnings(one.warnings)

    from twinlog.ui.site import ConsoleSettings  # noqa: PLC0415 - --help must not wait for a web server
    from twinlog.ui.sources import ConsoleSources  # noqa: PLC0415

    if (login is None or login.everyone) and issuer is None and not is_loopback(address.host):
        raise typer.BadParameter(
            f"{address.host or 'every address'} is open to other machines: give --users FILE or --oauth FILE, or "
            "listen at 127.0.0.1",
            param_hint="--listen",
        )
    try:
        sources = ConsoleSources(known, worker=worker)
    except OptionError as error:
        raise typer.BadParameter(str(error), param_hint="FILE") from None
    if not sources.flows and (files or read_only):
        text = "all flows of the files are disabled" if files else "a console that only shows needs a file"
        raise typer.BadParameter(text, param_hint="FILE")
    settings = ConsoleSettings(
        login,
        actions=not read_only,
        records=not no_records,
        migrations=None if read_only else folder.absolute(),
        open_id=issuer,
    )
    raise typer.Exit(_serve(sources, address, context, settings))


def _serve(
    sources: ConsoleSources, address: ListenerAddress, context: ssl.SSLContext | None, settings: ConsoleSettings
) -> int:
    """Serve until a signal; the exit code."""
    from twinlog.connect.rest.serving import Limits, ServerThread, bind, close, servers  # noqa: PLC0415
    from twinlog.ui.app import console_app  # noqa: PLC0415
    from twinlog.ui.site import ROOT  # noqa: PLC0415

    log_to_stderr()
    # The audit log is complete with -q, too.
    logging.getLogger("twinlog.audit").setLevel(logging.INFO)
    stopping = threading.Event()

    def stop(number: Signals) -> None:
        log.info("stopping (%s)", number.name)
        stopping.set()

    try:
        bound = bind([address], "--listen")
    except ListenError as error:
        print_error(failure_text(error))
        return UNREACHABLE
    app = console_app(sources, settings)
    serving = ServerThread("console-server")
    signals.call(stop)
    try:
        if not serving.begin(servers(bound, app, context, Limits())):
            return UNREACHABLE
        log.info("the console is at %s%s/", bound[0].listener, ROOT)
        if settings.needs_login and context is None:
            log.info("passwords and pages cross the network unencrypted: give --tls-cert and --tls-key")
        while not SYSTEM.wait(stopping, _LOOK_S):
            pass
    finally:
        # The streams of browsers end first: the server would wait for them.
        app.close()
        serving.end()
        close(bound)
    return FINE


def _users(path: Path | None) -> Users | None:
    """The users of a file. Raises ConfigError."""
    if path is None:
        return None
    from twinlog.connect.users import users_in  # noqa: PLC0415

    found = users_in(path)
    for warning in found.warnings:
        log.warning("%s", with_id(str(warning), "TW-FILE-22"))
    return found


def _issuer(path: Path | None) -> OpenIdSettings | None:
    """The login of a file. Raises ConfigError."""
    if path is None:
        return None
    found, warnings = load_open_id(path)
    print_warnings(warnings)
    return found


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise typer.BadParameter("it needs --tls-cert, too", param_hint="--tls-key")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise typer.BadParameter(f"{certificate}: {error}", param_hint="--tls-cert") from None
    return context
