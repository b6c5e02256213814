"""docs/options.md: what each command can be told, on the command line and in Python. `make options` writes it."""

from __future__ import annotations

import sys
from typing import get_type_hints

from bertkit.cli import COMMANDS, GROUPS
from bertkit.cli.declare import MACHINE, flags_of, help_of
from bertkit.settings import Settings, defaults_of, options_of

BEGINNING = """# What each command can be told

Made from the schemas in the code, by `make options`. A flag's name is that of the keyword in Python, with hyphens, but
where both are named. What stands in brackets is what a setting is unless it is said, and what it can be.
"""


def page() -> str:
    lines = [BEGINNING]
    inside = {f"{name} {its}": each for name, group in GROUPS.items() for its, each in group.COMMANDS.items()}
    commands = {**COMMANDS, **inside}
    for command, function in commands.items():
        schema = get_type_hints(function)["asked"]
        lines += [f"## {command}\n", *_table(schema)]
        for name, its in schema.variants().items():
            if options_of(its):
                lines += [f"With {schema.noun} {name} also:\n", *_table(its)]
    return "\n".join(lines)


def _table(schema: type[Settings]) -> list[str]:
    lines, group = ["| option | |", "|---|---|"], ""
    groups = list(dict.fromkeys(about.group for about in options_of(schema).values()))
    order = sorted(options_of(schema).items(), key=lambda each: (each[1].group == MACHINE, groups.index(each[1].group)))
    for name, about in order:
        if about.group != group and about.group:
            lines.append(f"| *{about.group}* | |")
        group = about.group
        said = [about.metavar.removesuffix("...") or name.upper()] if about.argument else flags_of(schema, name)
        python = "" if said[0].strip("-").replace("-", "_").lower() == name else f" (`{name}`)"
        what = help_of(about, defaults_of(schema).get(name, ...)).replace("|", "\\|")
        lines.append(f"| {', '.join(f'`{each}`' for each in said)}{python} | {what} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.stdout.write(page())
