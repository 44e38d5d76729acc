"""`twinlog launcher`: the file by which spark-submit starts twinlog."""

from __future__ import annotations

from pathlib import Path

import typer

import twinlog


def launcher() -> None:
    """Print the path of the file that `spark-submit` is given to start twinlog, with the command after it.

    Example: spark-submit --master spark://spark-1:7077 "$(twinlog launcher)" run mm2.properties
    """
    typer.echo(Path(twinlog.__file__).with_name("launcher.py"))
