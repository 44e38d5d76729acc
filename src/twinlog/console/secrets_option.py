"""The option that names where the Secrets of Strimzi's resource are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlog.config.strimzi.options import DIRECTORY_VARIABLE

Secrets = Annotated[
    Path | None,
    typer.Option(
        "--secrets",
        metavar="DIR",
        envvar=DIRECTORY_VARIABLE,
        exists=True,
        file_okay=False,
        help="Where the Secrets and ConfigMaps of Strimzi's resource are: DIR/NAME/KEY, as Kubernetes mounts them. "
        "Without, they are read from variables TWINLOG_SECRET_NAME_KEY.",
        show_default=False,
    ),
]
