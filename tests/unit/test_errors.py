"""What an error says is one line that a person can read and a terminal does not obey."""

from __future__ import annotations

import ast
from pathlib import Path

from bertkit import errors
from bertkit.errors import InputError


def test_control_characters_of_a_file_do_not_reach_the_terminal():
    said = str(InputError("unknown key 'a\x1b[31mred\u202e\x07 注意 é'", "Take\n  it out."))
    assert said == "unknown key 'a\\x1b[31mred\\u202e\\x07 注意 é'. Take it out."


def test_a_sentence_about_50_000_files_is_still_a_sentence():
    said = str(InputError("missing " + ", ".join(f"shard-{n}" for n in range(50_000)), "Copy them again."))
    assert len(said) < 2100
    assert said.startswith("missing shard-0, ")
    assert said.endswith("shard-49999. Copy them again.")


COLLECTED = {"checkpoint.py", "checkpoint_manifest.py", "decompress.py", "encoding.py"}
"""What is wrong there is told by others, together with a remedy."""
IMPOSSIBLE = {"there was no seed", "there was no epoch"}


def test_every_refusal_has_a_remedy():
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    without = []
    for file in Path(errors.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            made = node.exc
            if getattr(made.func, "id", "") not in known or len(made.args) + len(made.keywords) > 1:
                continue
            said = ast.unparse(made.args[0])
            if file.name not in COLLECTED and said.strip("'\"") not in IMPOSSIBLE and not said.startswith("*"):
                without.append(f"{file.name}:{node.lineno}: {said}")
    assert not without
