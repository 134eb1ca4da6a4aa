"""A command of the command line, which takes every option once unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Command(click.Command):
    """Refuses an option that is given twice: of two machines after `--on`, click would take the last without a word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for place, option in enumerate(order):
                if isinstance(option, click.Option) and _holds_one(option) and option in order[:place]:
                    name = max(option.opts, key=len)
                    raise click.UsageError(f"option '{name}' is given more than once", ctx)
        return super().parse_args(ctx, args)


def _holds_one(option: click.Option) -> bool:
    return not (option.multiple or option.count or option.is_flag)


def command(
    name: str | None = None, cls: type[Command] = Command, **given: Any
) -> Callable[[Callable[..., Any]], Command]:
    """As `click.command`."""
    return click.command(name, cls, **given)
