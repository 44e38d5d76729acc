"""The options by which a command is given a Spark: `--master` and `--conf`, as spark-submit has them."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlog.spark.submitted import is_submitted

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Spark's master; without it Spark runs in this process, local[N].", show_default=False
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be given several times.", show_default=False),
]


def spark_options(master: str | None, conf: list[str] | None) -> tuple[str | None, dict[str, str]]:
    """Spark's master, however it was given, and the other settings: much depends on whether it is local.

    Raises typer.BadParameter for what is no setting, for two masters, and for any where spark-submit has its own.
    """
    if is_submitted():
        for option, value in (("--master", master), ("--conf", conf)):
            if value:
                raise typer.BadParameter(
                    f"spark-submit has started twinlog, and its Spark with it: give {option} to spark-submit, before "
                    "the launcher",
                    param_hint=option,
                )
    settings = _settings(conf or [])
    return _master(master, settings), settings


def _master(named: str | None, settings: dict[str, str]) -> str | None:
    given = settings.pop("spark.master", None)
    if None not in (named, given) and named != given:
        raise typer.BadParameter(f"spark.master={given} beside --master {named}: give one of them", param_hint="--conf")
    return named if given is None else given


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(
                f"{one!r}: expected KEY=VALUE, as in spark.driver.memory=512m", param_hint="--conf"
            )
        settings[key.strip()] = value.strip()
    return settings
