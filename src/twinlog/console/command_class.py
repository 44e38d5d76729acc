"""Commands of `twinlog` as Typer makes them: with the options of the log, the names of before, and the help page.

`CommandApp` takes the place of `typer.Typer`. Each of its commands has `-v`, `-q` and `--log-format`, accepts the
names of options that it had in earlier versions, and prints its help by `console.help_page`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any

import typer
import typer.core

from twinlog.console.help_page import help_text, usage
from twinlog.console.log_options import LogFormat, choose_log, chosen_log, json_line
from twinlog.console.usage_hints import file_as_command, hint_about_arguments, hint_about_option
from twinlog.errors.message_ids import with_id


@dataclass(frozen=True, slots=True)
class OldName:
    """A name that an option had before: a hidden alias of the parameter `now`. With `value` it takes no argument.

    `only` are the commands with the alias; without, all commands that have the parameter.
    """

    name: str
    now: str
    value: object = None
    only: tuple[str, ...] = ()


OLD_NAMES = (
    OldName("--json", "output", "json"),
    OldName("--topics", "topic", only=("verify", "replay")),
    OldName("--from-timestamp", "since", only=("verify",)),
    OldName("--rehearse", "dry_run", True, only=("switchover", "switchback")),
    OldName("--at-most", "timeout", only=("switchover", "switchback")),
    OldName("--offset", "from_offset", only=("restart-from",)),
    OldName("--time", "since", only=("restart-from",)),
    OldName("--offset", "to_offset", only=("skip-to",)),
    OldName("--time", "until", only=("skip-to",)),
    OldName("--check", "dry_run", True, only=("create",)),
    OldName("--format", "output", only=("acls",)),
    OldName("--format", "form", only=("convert",)),
    OldName("--to", "form", only=("convert",)),
    OldName("--version", "api_version", only=("convert",)),
    OldName("-o", "folder", only=("write",)),
    OldName("--connect", "url", only=("console",)),
    OldName("--connect-cacert", "cacert", only=("console",)),
)


class TwinlogCommand(typer.core.TyperCommand):
    """A command that accepts the old names of its options, and prints its own help.

    `section` is its place in the help of the command above, `page` the page of docs that has more about it.
    """

    section = ""
    page = ""

    @property
    def old_names(self) -> Mapping[OldName, Any]:
        """The hidden aliases of this command, each with its parameter."""
        by_name = {param.name: param for param in self.params}
        known = {opt for param in self.params for opt in (*param.opts, *param.secondary_opts)}
        return {
            old: by_name[old.now]
            for old in OLD_NAMES
            if old.now in by_name and old.name not in known and (not old.only or self.name in old.only)
        }

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        for old, param in self.old_names.items():
            if old.value is not None:
                parser.add_option(param, [old.name], param.name, "store_const", const=old.value)
            else:
                parser.add_option(param, [old.name], param.name, "append" if param.multiple else "store")
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. An error names the right form, if the command line resembles a right form."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except _UsageError as error:
            text = hint_about_option(ctx, getattr(error, "option_name", None), words)
            if text is None:
                raise
            raise _UsageError(text, ctx) from None
        text = None if ctx.resilient_parsing else hint_about_arguments(ctx, words)
        if text is not None:
            raise _UsageError(text, ctx)
        return rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"Usage: {usage(self, ctx)}\n")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


USAGE_ID = "TW-USE-01"

_UsageError: Any = typer.BadParameter.__mro__[1]
"""Click's class of every error of a command line; Typer has no public name for it."""


@contextmanager
def _with_ids() -> Iterator[None]:
    """Put a message id in front of the text of an error of the command line."""
    try:
        yield
    except _UsageError as error:
        if type(error).show is not _UsageError.show:
            # It prints the help.
            raise
        error.format_message = partial(_text, error.format_message)
        if chosen_log().format is LogFormat.JSON:
            error.show = partial(_show_as_json, error)
        raise


def _text(text: Callable[[], str]) -> str:
    return with_id(text(), USAGE_ID)


def _show_as_json(error: Any, file: Any = None) -> None:
    typer.echo(json_line("error", error.format_message()), file=file, err=file is None)


class TwinlogGroup(typer.core.TyperGroup):
    """A command with subcommands in `sections`, and the help of `twinlog`."""

    section = ""
    page = ""
    sections: tuple[str, ...] = ()

    def make_context(self, *given: Any, **named: Any) -> Any:
        with _with_ids():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _with_ids():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_wrong = "run" in self.commands and args[0] not in self.commands and not ctx.resilient_parsing
        text = file_as_command(args, self.commands) if is_wrong else None
        if text is not None:
            raise _UsageError(text, ctx)
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"Usage: {usage(self, ctx)}\n")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


class DefaultCommandGroup(TwinlogGroup):
    """A command with subcommands; any other command line is for `default_command`."""

    default_command = ""

    def names_subcommand(self, args: Sequence[str]) -> bool:
        """Whether the first of the words is the name of a subcommand."""
        return args[0] in self.commands

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not self.names_subcommand(args):
            args = [self.default_command, *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A first option belongs to the default command; the group itself has only the help.
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)


class CommandApp(typer.Typer):
    """Commands with the vocabulary of `twinlog`."""

    def __init__(self, *, cls: type[TwinlogGroup] = TwinlogGroup, **settings: Any) -> None:
        plain = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
        super().__init__(cls=cls, **{**plain, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a function as a command, as Typer does."""
        add = super().command(name, **{"cls": TwinlogCommand, **settings})

        def decorated(function: Any) -> Any:
            add(_with_log_options(function))
            return function

        return decorated


def _log_options(
    *,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Log each step on stderr.", show_default=False)
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("-q", "--quiet", help="Print only results, warnings and errors.", show_default=False),
    ] = False,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", envvar="TWINLOG_LOG_FORMAT", help="Write stderr as lines of text, or of JSON."),
    ] = LogFormat.TEXT,
) -> None:
    """The options of the log."""
    if verbose and quiet:
        raise typer.BadParameter("give either -v or -q", param_hint="-q")
    choose_log(log_format, verbose=verbose, quiet=quiet)


def _with_log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    own = inspect.signature(function, eval_str=True).parameters
    shared = inspect.signature(_log_options, eval_str=True).parameters

    @wraps(function)
    def run(**given: Any) -> Any:
        _log_options(**{name: given.pop(name) for name in shared})
        return function(**given)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own.values(), *shared.values())]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    return run
