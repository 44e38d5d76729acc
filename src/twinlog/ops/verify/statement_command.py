"""The keys and the files of signed statements on the command line, and `twinlog keygen`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinlog.console.command_log import print_note
from twinlog.console.exit_codes import end_with
from twinlog.console.new_files import require_new, write_new_files
from twinlog.errors import TwinlogError

if TYPE_CHECKING:
    from twinlog.ops.verify.signing import SigningKey
    from twinlog.ops.verify.statement import Statement


def keygen(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="PATH",
            dir_okay=False,
            help="Write the private key to PATH, and the public key to PATH.pub.pem.",
        ),
    ] = Path("proof.key"),
) -> None:
    """Make a key pair of Ed25519, which signs the statements of `twinlog verify` and `twinlog switchover`.

    Only you may read the private key. The public key is for everyone who checks a statement. Existing files are kept.
    The command prints the fingerprint of the pair.

    Exit codes: 0; 2 a file exists, or its folder refuses new files; 4.

    Example: twinlog keygen --out proof.key
    """
    from twinlog.ops.verify.signing import SigningKey  # noqa: PLC0415 - cryptography is slow to import for --help

    made = SigningKey.generate()
    public = out.with_name(f"{out.name}.pub.pem")
    write_new_files(
        {out: (made.pem, 0o600), public: (made.public.pem, 0o644)},
        kept=", and no key was written; name another file with --out",
    )
    print_note(f"wrote {out}, {public}")
    typer.echo(made.public.fingerprint)


def checked_statement(path: Path, key: Path | None) -> Statement:
    """Return a statement whose signature is right; otherwise the command ends."""
    from twinlog.ops.verify.signing import VerifyingKey  # noqa: PLC0415
    from twinlog.ops.verify.statement import read_statement  # noqa: PLC0415

    try:
        found = read_statement(path, None if key is None else VerifyingKey.read(key))
    except TwinlogError as error:
        end_with(error)
    origin = "" if key is not None else " in the statement itself; --key PUB proves the signer"
    print_note(f"the signature of {path} is right, by the key {found.signer.fingerprint}{origin}")
    return found


def signer_of(sign: Path | None, statement: Path | None) -> SigningKey | None:
    """Return the key of `--sign`, once the files of the statement can be written; None without a statement.

    Raises BadParameter; a wrong key ends the command.
    """
    if sign is None and statement is None:
        return None
    if sign is None or statement is None:
        raise typer.BadParameter(
            "--sign KEY and --statement PATH come together", param_hint="--statement" if sign is None else "--sign"
        )
    from twinlog.ops.verify.statement import signature_path  # noqa: PLC0415

    require_new((statement, signature_path(statement)), "--statement")
    return read_signing_key(sign)


def read_signing_key(path: Path) -> SigningKey:
    """Return the private key in a file; a wrong key ends the command."""
    from twinlog.ops.verify.signing import SigningKey  # noqa: PLC0415

    try:
        return SigningKey.read(path)
    except TwinlogError as error:
        end_with(error)


def write_statement(path: Path, content: Mapping[str, Any], key: SigningKey) -> None:
    """Write a statement and its signature; an existing file ends the command."""
    from twinlog.ops.verify.statement import signed_files  # noqa: PLC0415

    files = signed_files(path, content, key)
    write_new_files({file: (data, 0o644) for file, data in files.items()}, kept=", and is kept")
    print_note(f"wrote {', '.join(map(str, files))}, signed by {key.public.fingerprint}")
