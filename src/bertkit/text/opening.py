"""The files of a tokenizer, read: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, with what
`tokenizer_config.json` tells of them.

A stranger may have made them. Before any of it runs, texts that grow without end, patterns that try for ever, and
pieces drawn by chance are refused; what the published models have is far within the bounds.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from bertkit.errors import TokenizerError, shortened
from bertkit.files import AGAIN, present, read_json, require_regular_file
from bertkit.text.kinds import BPE, BYTES, KINDS, WORDPIECE, Form, assemble, bpe, form_of

ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
KINDS_IN_WORDS = {"wordpiece": "WordPiece", "bpe": "BPE", "unigram": "Unigram", "words": "word"}
MAX_VOCABULARY_BYTES = 512 * 2**20


def open_backend(
    folder: Path, kinds: Collection[str], reader: str
) -> tuple[tokenizers.Tokenizer, Form, dict[str, str]]:
    """What encodes, how it is made, and the special tokens by their role."""
    settings_file = folder / "tokenizer_config.json"
    settings = read_json(settings_file, TokenizerError) if present(settings_file) else {}
    named = {role: _content(settings.get(f"{role}_token"), settings_file) for role in ROLES}
    if present(folder / "tokenizer.json"):
        backend = _read_tokenizer_json(folder / "tokenizer.json")
        _require_kind(backend, kinds, reader, folder)
        found = form_of(backend, settings.get("tokenizer_class"), folder / "tokenizer.json")
    elif present(folder / "vocab.txt"):
        found, names = WORDPIECE, {role: named[role] or token for role, token in WORDPIECE.specials.items()}
        vocabulary = read_vocabulary(folder / "vocab.txt")
        if "do_lower_case" not in settings:
            _require_small_letters(vocabulary, folder / "vocab.txt")
        backend = assemble(WORDPIECE, wordpiece(vocabulary, unk=names["unk"]), lowercase=True, specials=names)
    elif present(folder / "vocab.json") and present(folder / "merges.txt"):
        backend, found = _read_merges(folder, settings)
        _require_kind(backend, kinds, reader, folder)
    else:
        raise TokenizerError(
            f"{folder} has no tokenizer: neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt",
            "If there is a spiece.model, transformers' AutoTokenizer can save it as tokenizer.json.",
        )
    _apply_casing(backend, settings, settings_file)
    # A role that the kind does not have is taken over if it can be, as others do who open the folder.
    said = {role: token or found.learned_with.get(role) for role, token in named.items()}
    specials = {
        role: token
        for role, token in said.items()
        if token and (role in found.specials or backend.token_to_id(token) is not None)
    }
    return backend, found, specials


def wordpiece(vocabulary: dict[str, int], *, unk: str = WORDPIECE.specials["unk"]) -> models.WordPiece:
    """The longest pieces first; a word of more than 100 characters is unknown, as in BERT."""
    return models.WordPiece(vocabulary, unk_token=unk, max_input_chars_per_word=100)


def read_vocabulary(path: Path) -> dict[str, int]:
    """A `vocab.txt`: a piece a line, the line number its id."""
    _require_reasonable(path, "vocabulary")
    try:
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as problem:
        byte, line = problem.object[problem.start], problem.object[: problem.start].count(b"\n") + 1
        raise TokenizerError(f"{path}, line {line}: byte {byte:#04x} is not UTF-8", "Save it as UTF-8.") from None
    pieces = [line.removesuffix("\r") for line in lines]
    return {piece: number for number, piece in enumerate(pieces)}  # of a piece twice, the last line counts


def _require_reasonable(file: Path, what: str) -> None:
    require_regular_file(file, TokenizerError)
    if file.stat().st_size > MAX_VOCABULARY_BYTES:
        raise TokenizerError(f"{file} has {file.stat().st_size} bytes, more than any {what}", AGAIN)


def _require_small_letters(vocabulary: Iterable[str], path: Path) -> None:
    """A vocabulary alone is read as uncased; one with capital letters only would then know no word."""
    letters = "".join(piece for piece in vocabulary if not re.fullmatch(r"\[.*\]|<.*>", piece))
    if letters.lower() != letters and letters.upper() == letters:
        raise TokenizerError(
            f"{path} has no small letters, and without a word on casing it is read as uncased: all would be unknown",
            'Write {"do_lower_case": false} into tokenizer_config.json beside it.',
        )


def _read_merges(folder: Path, settings: Mapping[str, Any]) -> tuple[tokenizers.Tokenizer, Form]:
    """BPE as the first releases of RoBERTa and both GPTs have it."""
    files = folder / "vocab.json", folder / "merges.txt"
    for file in files:
        _require_reasonable(file, "vocabulary")
    try:
        vocabulary, merges = models.BPE.read_file(*map(str, files))
        ending = sum(piece.endswith(BPE.word_end) for piece in vocabulary)
        model = bpe(BPE if 10 * ending > len(vocabulary) else BYTES, vocabulary, merges)
    except Exception as problem:  # the library raises bare Exceptions
        raise TokenizerError(f"{files[0]} or {files[1].name} is damaged: {problem}", AGAIN) from None
    form = form_of(tokenizers.Tokenizer(model), settings.get("tokenizer_class"), files[0])
    backend = assemble(form, model, lowercase=form.uncased_only)
    if settings.get("add_prefix_space") is True:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return backend, form


def _read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    _require_reasonable(path, "tokenizer")
    content = path.read_bytes()
    try:
        parts = json.loads(content)
        if not isinstance(parts, dict):
            raise ValueError(f"it holds {shortened(parts)}")
        require_bounded(parts, path)
        backend = tokenizers.Tokenizer.from_buffer(content)
    except TokenizerError:
        raise
    except BaseException as problem:  # the library raises bare Exceptions, and panics, which are none
        if isinstance(problem, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        reason = shortened(" ".join(str(problem).split()), 120)
        raise TokenizerError(f"{path} is damaged or not a tokenizer: {reason}", AGAIN) from None
    return backend


def _require_kind(backend: tokenizers.Tokenizer, kinds: Collection[str], reader: str, folder: Path) -> None:
    kind = KINDS.get(type(backend.model))
    if kinds and kind is not None and kind not in kinds:
        usable = " or ".join(KINDS_IN_WORDS[each] for each in dict.fromkeys(kinds))
        raise TokenizerError(
            f"{folder} has a {KINDS_IN_WORDS[kind]} tokenizer, and {reader}'s is {usable}",
            "Bring the tokenizer that belongs to the model.",
        )


def _content(token: Any, source: Path) -> str | None:
    """A special token's text: written plainly, or as an object with its text under "content"."""
    if isinstance(token, dict):
        token = token.get("content")
    if token is not None and not isinstance(token, str):
        raise TokenizerError(
            f"{source}: special token {shortened(token)} is not text", 'It is written as "[PAD]", or left out.'
        )
    return token


def _apply_casing(backend: tokenizers.Tokenizer, settings: dict[str, Any], source: Path) -> None:
    """What tokenizer_config.json says of casing holds, also against tokenizer.json, as it does for others who open
    the folder."""
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    for key, attribute in names.items():
        if key not in settings or (settings[key] is None and key != "strip_accents"):
            continue
        if not isinstance(settings[key], bool | None):
            raise TokenizerError(f"{source}: {key} is {shortened(settings[key])}", "It must be true or false.")
        if isinstance(backend.normalizer, normalizers.BertNormalizer):
            setattr(backend.normalizer, attribute, settings[key])


STEPS = 64
GROWTH = 8
"""So many times as long may a text become by what is replaced in it."""
FRAME = 16
LONGEST_WORD = 1_000
LONGEST_PATTERN = 1_000
HIGHEST_ID = 10_000_000
LONGEST_FOLDING = 200
"""Bytes that one character may become in a table of characters; in those of the published models it is 33."""
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
LENGTHENING = {"ByteLevel"}
"""Steps that write each byte as a character, so that every one more makes texts longer."""
BRANCHES = 8
"""What may be there or not, or be one thing or another, in a row: each doubles what there is to try."""
QUANTIFIER = r"[*+?]|\{\d*,?\d*\}"
ENDLESS = r"[*+]|\{\d*,\}|\{\d{4,}\}|\{\d*,\d{4,}\}"
ENDLESS_IN_A_ROW = 3


def require_bounded(parts: Mapping[str, Any], source: object) -> None:
    """`parts` is the content of the tokenizer.json that `source` names."""
    problem = next(_problems(parts), None)
    if problem is not None:
        raise TokenizerError(
            f"{source}: {problem}", "Use the tokenizer.json that was published with the model, or vocab.txt alone."
        )


def _problems(parts: Mapping[str, Any]) -> Iterator[str]:
    growth = 1.0
    before = [step.get("type") for part in PARTS[:2] for step in _steps(parts.get(part))]
    for kind in sorted(LENGTHENING):
        if (times := before.count(kind)) > 1:
            yield f"it has the step {kind} {times} times before its model, and one is enough"
    for part in PARTS:
        steps = list(_steps(parts.get(part)))
        if len(steps) > STEPS:
            yield f"its {part} has {len(steps)} steps, and {STEPS} are enough"
        for step in steps:
            pattern = step.get("pattern")
            if isinstance(pattern, Mapping) and isinstance(regex := pattern.get("Regex"), str) and _may_explode(regex):
                yield f"its {part} has a pattern that may take for ever: {shortened(regex)}"
            if step.get("type") == "FixedLength" and not (isinstance(step.get("length"), int) and step["length"] > 0):
                yield f"its {part} cuts text into pieces of {shortened(step.get('length'))} characters"
            if step.get("type") == "Replace":
                growth *= max(1.0, len(str(step.get("content", ""))) / _shortest(pattern))
            if step.get("type") == "Prepend":
                growth *= max(1, len(str(step.get("prepend", ""))))
            if step.get("type") == "Precompiled" and _folds_without_end(step.get("precompiled_charsmap")):
                yield f"its {part} has a table of characters in which one becomes more than {LONGEST_FOLDING} bytes"
            for frame in (step.get("single"), step.get("pair")):
                if isinstance(frame, list) and len(frame) > FRAME:
                    yield f"its {part} puts {len(frame)} parts around a text"
    if growth > GROWTH:
        yield f"what it replaces makes texts up to {growth:,.0f} times as long, and {GROWTH} times is the limit"
    yield from _problems_of_model(parts.get("model"))


def _problems_of_model(model: Any) -> Iterator[str]:
    if not isinstance(model, Mapping):
        return
    if isinstance(longest := model.get("max_input_chars_per_word"), int) and longest > LONGEST_WORD:
        yield f"words of {longest:,} characters are looked up, and {LONGEST_WORD:,} is the limit"
    if model.get("dropout"):
        yield f"it leaves out merges by chance (dropout {shortened(model['dropout'])}), so a text has no one reading"
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, Mapping):
        highest = max((number for number in vocabulary.values() if isinstance(number, int)), default=0)
        if highest > HIGHEST_ID:
            yield f"its highest number is {highest:,}, and {HIGHEST_ID:,} is the limit"
        unknown = model.get("unk_token")
        if unknown is not None and unknown not in vocabulary:
            yield f"its unk_token {shortened(unknown)} is not in its vocabulary"
    elif isinstance(vocabulary, list):
        unknown = model.get("unk_id")
        if not model.get("byte_fallback") and not (isinstance(unknown, int) and 0 <= unknown < len(vocabulary)):
            yield f"its unk_id is {shortened(unknown)}, so a character that it does not know has no reading"


def _steps(step: Any) -> Iterator[Mapping[str, Any]]:
    """A part of a tokenizer and all that it is made of."""
    waiting = [step]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield each
            for name in ("normalizers", "pretokenizers", "processors", "decoders"):
                if isinstance(each.get(name), list):
                    waiting += each[name]


def _shortest(pattern: Any) -> int:
    """How many characters at least are replaced; a pattern that can find nothing grows at every place."""
    text = pattern.get("String") if isinstance(pattern, Mapping) else None
    return max(1, len(text)) if isinstance(text, str) else 1


def _may_explode(pattern: str) -> bool:
    """Whether a pattern repeats what repeats itself, refers back or to itself, or has so many endless repetitions or
    branches in a row that trying them all takes for ever.

    >>> _may_explode("(a+)+$"), _may_explode(r" ?[^\\s\\p{L}]+[\\r\\n]*|\\s+(?!\\S)")
    (True, False)
    """
    if len(pattern) > LONGEST_PATTERN or re.search(r"\\[1-9kg]|\(\?[a-wyzA-Z]*x|\(\?[#({&R0-9+]", pattern):
        return True
    plain = re.sub(r"\\[pP]\{[^}]*\}|\\x\{[0-9a-fA-F]*\}|\\.", "x", pattern, flags=re.DOTALL)
    plain = re.sub(r"\[\^?\]?(?:[^\[\]]|\[[^\[\]]*\])*\]", "x", plain)  # what one character may be
    plain = re.sub(r"\(\?(?:[a-zA-Z-]*:|[=!>]|<[=!]|<\w+>)", "(", plain)
    if re.search(rf"({QUANTIFIER})({QUANTIFIER})", plain.replace("+?", "+").replace("*?", "*").replace("??", "?")):
        return True
    while "(" in plain:
        inner = re.search(rf"\(([^()]*)\)({QUANTIFIER})?", plain)
        if inner is None:
            return True  # brackets that do not match
        content, how_often = inner[1], inner[2] or ""
        repeats = max(len(re.findall(ENDLESS, each)) for each in content.split("|"))
        if how_often not in ("", "?") and (repeats or "|" in content or "?" in content):
            return True
        branches = max(each.count("?") for each in content.split("|")) + ("|" in content)
        made = "x" + "x+" * repeats + "x?" * branches + how_often * (not repeats)
        plain = plain[: inner.start()] + made + plain[inner.end() :]
    ways = plain.split("|")
    return any(len(re.findall(ENDLESS, way)) > ENDLESS_IN_A_ROW or way.count("?") > BRANCHES for way in ways)


def _folds_without_end(table: Any) -> bool:
    """Of a table of SentencePiece: the length of its trie, the trie, and what its entries stand for, each with a 0
    behind it."""
    try:
        content = base64.b64decode(table or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return True
    behind = content[4 + int.from_bytes(content[:4], "little") :]
    return any(len(each) > LONGEST_FOLDING for each in behind.split(b"\0"))
