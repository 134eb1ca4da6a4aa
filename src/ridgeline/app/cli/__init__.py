"""The command line: every command parses its words, calls one function and presents the result."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from ...core.errors import Interrupted, RidgelineError, UnknownName, unknown
from ...core.intake.text import clean
from ...core.version import __version__
from ..last_resort import BAD_INPUT, INTERRUPTED, unprintable
from .echo import Unprintable, echo

EPILOG = (
    "Exit codes: 0 done, 1 a check failed, 2 bad input, 70 a fault of ridgeline (RIDGELINE_DEBUG=1 shows where), "
    "130 stopped by Ctrl-C. Terms: `ridgeline glossary`. "
    "The roofline model is by Williams, Waterman and Patterson (2009)."
)

# How the command line lists the names of a kind.
LISTED = {
    "machine": "`ridgeline machines` lists them; a .toml file, or --peak and --bandwidth, work too.",
    "op": "`ridgeline ops` lists them.",
    "chart": "`ridgeline chart` lists them.",
    "table": "`ridgeline table` lists them.",
    "term": "`ridgeline glossary` lists them.",
    "seal": "`ridgeline ledger show` lists them.",
}

# Commands by the module of this package that has them; a module is loaded when a command of it is used.
MODULES = {
    "measure": ("measure", "merge", "run"),
    "model": ("model",),
    "predict": ("eval", "predict"),
    "profiles": ("gate", "import", "profile"),
    "record": ("ledger", "reconcile", "seal"),
    "serve": ("serve",),
    "studies": ("chart", "compare", "critical-batch", "glossary", "machines", "ops", "precisions", "table", "whatif"),
    "trace": ("trace",),
}
COMMANDS = {command: module for module, commands in MODULES.items() for command in commands}


class Commands(click.Group):
    """Loads a command when it is used; turns every expected error into one message and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = vars(import_module(f".{COMMANDS[cmd_name]}", __name__))
        commands = (value for value in module.values() if isinstance(value, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RidgelineError as error:
            listed = LISTED.get(error.kind, "") if isinstance(error, UnknownName) else ""
            echo(f"ridgeline: {error} {listed}".rstrip(), err=True)
            ctx.exit(INTERRUPTED if isinstance(error, Interrupted) else BAD_INPUT)
        except Unprintable as error:
            ctx.exit(unprintable(error.cause))
        except OSError as error:
            if error.filename is None:
                raise
            name = clean(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else error.filename
            echo(f"ridgeline: cannot use '{name}': {error.strerror}", err=True)
            ctx.exit(BAD_INPUT)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            echo(f"ridgeline: {unknown('command', args[0], self.list_commands(ctx))}", err=True)
            ctx.exit(BAD_INPUT)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=EPILOG
)
@click.version_option(__version__, "--version", prog_name="ridgeline")
@click.option(
    "--limit", "limits", metavar="NAME=VALUE", multiple=True, envvar="RIDGELINE_LIMITS",
    help="Accept more (or less) of what can grow: read=16GiB, rows=1e8; names in the docs. Also RIDGELINE_LIMITS.",
)  # fmt: skip
def main(limits: tuple[str, ...]) -> None:
    """Roofline toolkit: predict kernel times, measure machines, explain the gap.

    Attainable rate = min(peak, bandwidth x arithmetic intensity), per engine and memory level; launch overhead is
    the third regime.
    """
    if limits:
        from ...core.intake.limits import set_limits

        set_limits(limits)


def message(error: click.ClickException, words: Sequence[str] = ()) -> str:
    """One message, without the lines of usage; only no words at all get the help. `words` are those of the command line."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and (usual := _usual_value(error.option_name)):
        option = error.option_name
        given = f"{option.lstrip('-')}={_value_after(option, words) or usual}"
        return f"ridgeline: no such option '{option}'; arguments of an op are given without dashes, as {given}"
    hint = f"; see `{context.command_path} --help`" if context is not None else ""
    text = re.sub(r"a valid (?:integer|float)( range)?", "a valid number", error.format_message().rstrip("."))
    if text.endswith("?"):
        hint = hint.replace("; see", " See")
    return f"ridgeline: {text[:1].lower()}{text[1:]}{hint}"


def _usual_value(option: str) -> str:
    """An example of what an argument of an op may be that was typed as an option; nothing where no op has such an argument."""
    from ...programs.ops import OPS

    params = (op.params.get(option.lstrip("-")) for op in OPS.values())
    param = next(filter(None, params), None)
    if param is None:
        return ""
    if param.kind == "Flag" or param.required or param.default is None:
        return {"Flag": "yes", "Size": "4096"}.get(param.kind, "1")
    return str(param.default)


def _value_after(option: str, words: Sequence[str]) -> str:
    """What was typed for an option, behind it or behind its equals sign."""
    for place, word in enumerate(words, 1):
        name, equals, value = word.partition("=")
        after = "".join(words[place : place + 1])
        if name == option:
            return value if equals else "" if after.startswith("-") or "=" in after else after
    return ""


def run() -> int:
    """The command line of this process; its exit code."""
    try:
        code = main.main(prog_name="ridgeline", standalone_mode=False)
    except click.ClickException as error:  # of the words of the command line
        with suppress(OSError):  # standard error is full or gone
            echo(message(error, sys.argv[1:]), err=True)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0
