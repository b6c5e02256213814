"""What stands between the columns of a table: as the user says it, and whether it may be another than it seems."""

from __future__ import annotations

import re

from bertkit.errors import UsageError

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
LOOK_AT, FEWEST = 20, 10
"""So many lines are looked at, and so few tell nothing."""
CHARACTERS = 2**16
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"(?:[^"]|"")*"', re.MULTILINE)


def delimiter_called(name: str) -> str:
    """By its name, or itself: delimiter_called("semicolon") and delimiter_called(";") are ";"."""
    character = DELIMITERS.get(name, name)
    if len(character) != 1:
        raise UsageError(f"the delimiter is {name!r}", f"It can be {', '.join(DELIMITERS)} or one character.")
    return character


def another_delimiter(start: str, delimiter: str) -> str | None:
    """The name of another one that every line of the beginning of a table has equally often outside quotes, the first
    too: what is in texts is not so regular, and a header of a table that it does not separate has none.

    >>> another_delimiter("Yes, fine;pos\\nNo, bad;neg\\n" * 5, ",")
    'semicolon'
    >>> another_delimiter("text,label\\n" + "a;b,1\\nc;d,0\\n" * 5, ",")
    """
    lines = _QUOTED.sub("", start[:CHARACTERS]).split("\n")
    if len(start) > CHARACTERS:
        lines.pop()  # it may go on
    lines = [line for line in lines if line.strip()][:LOOK_AT]
    if len(lines) < FEWEST:
        return None
    for name, character in DELIMITERS.items():
        counts = {line.count(character) for line in lines}
        if character != delimiter and len(counts) == 1 and counts != {0}:
            return name
    return None
