"""`bertkit tokenizer extend` as a user has it, and the way from there to a model with more words."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import BertForPreTraining, BertTokenizerFast

from bertkit import CorpusFolder, load_encoder
from bertkit.families import FAMILIES, vocabulary
from bertkit.files import sha256_of
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from bertkit.train import match_vocabulary
from commands import bertkit_command, on_a_terminal
from corpora import lines_of

ROOT = Path(__file__).parents[2]
DOMAIN = [
    "The Nephrologist found glomerulonephritis, and creatinine is a measure of it.",
    "Glomerulonephritis harms the kidneys; a nephrologist or two nephrologists will see it.",
    "肾炎患者的肾脏，需要检查。",
]
NEW_WORDS = {"nephrologist", "glomerulonephritis", "creatinine", "肾", "炎"}


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    return bertkit_command("tokenizer", "extend", *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def texts(tmp_path_factory, english: list[str]) -> Path:
    path = tmp_path_factory.mktemp("texts") / "domain.txt"
    lines = [f"{sentence} {number} {english[number]}" for number in range(40) for sentence in DOMAIN]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory, tiny_folder: Path, texts: Path) -> tuple[Path, dict]:
    """The folder that the command writes, and what it says."""
    out = tmp_path_factory.mktemp("extended") / "tokenizer"
    finished = run(tiny_folder, texts, "-o", out, "--add", 60)
    assert finished.returncode == 0, finished.stderr
    return out, json.loads(finished.stdout)


@pytest.fixture(scope="module")
def bigger(tmp_path_factory, tiny_folder: Path, done) -> Path:
    """A model folder with the new words."""
    model, _ = load_model(ModelFolder(tiny_folder))
    old, new = Tokenizer.open(tiny_folder), Tokenizer.open(done[0])
    fitted = match_vocabulary(model, old, new, extend=True, folder=tiny_folder, shards=done[0])
    folder = tmp_path_factory.mktemp("bigger") / "model"
    save_model(folder, fitted.model, new)
    return folder


def test_it_writes_a_tokenizer_folder_and_says_what_is_in_it(done, tiny_folder, tokenizer):
    out, record = done
    names = {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "report.json"}
    assert {file.name for file in out.iterdir()} == names
    assert record == {"folder": str(out), **json.loads((out / "report.json").read_text())}
    opened = Tokenizer.open(out)
    assert set(record["added"]) >= NEW_WORDS
    assert (record["vocabulary"], record["sha256"]) == (opened.vocab_size, opened.sha256())
    assert record["vocabulary"] == tokenizer.vocab_size + len(record["added"])
    before = {"folder": str(tiny_folder), "vocabulary": tokenizer.vocab_size, "sha256": tokenizer.sha256()}
    assert record["extends"] == before
    assert record["held_out"]["pieces_per_word"] < record["held_out_before"]["pieces_per_word"]
    assert record["held_out"]["unknown_pieces"] < record["held_out_before"]["unknown_pieces"]


def test_lines_of_the_vocabulary_are_the_old_ones_and_then_the_new_words(done, tiny_folder):
    out, record = done
    before, after = ((folder / "vocab.txt").read_text(encoding="utf-8").splitlines() for folder in (tiny_folder, out))
    assert after == before + record["added"]


def test_transformers_opens_it_and_agrees(done, tiny_folder, english):
    out, record = done
    ours, theirs = Tokenizer.open(out), BertTokenizerFast.from_pretrained(out)
    assert theirs.get_vocab() == ours.backend.get_vocab()
    assert len(theirs) == ours.vocab_size
    lines = [
        *DOMAIN,
        *english[:500],
        "nephrologists, [MASK] Glomerulonephritisch 肾炎 ##nephrologist",
        *record["added"],
    ]
    assert ours.encode_ids(lines) == theirs(lines)["input_ids"]
    assert theirs.tokenize("Nephrologist 肾") == ["nephrologist", "肾"]
    before = BertTokenizerFast.from_pretrained(tiny_folder)
    plain = [line for line in english if not any(word in line.lower() for word in record["added"])]
    assert len(plain) > 500
    assert theirs(plain)["input_ids"] == before(plain)["input_ids"]


def test_the_same_text_gives_the_same_file_and_stdin_is_read(done, tiny_folder, texts, tmp_path):
    lines = texts.read_bytes().splitlines(keepends=True)
    again = run(tiny_folder, "-", "-o", tmp_path / "out", "--add", 60, stdin=b"".join(reversed(lines)))
    assert again.returncode == 0, again.stderr
    assert sha256_of(tmp_path / "out" / "tokenizer.json") == sha256_of(done[0] / "tokenizer.json")


def test_few_words_are_added_if_few_are_asked_for_and_more_if_there_are_no_more(tiny_folder, texts, tmp_path):
    few = run(tiny_folder, texts, "-o", tmp_path / "few", "--add", 2, "--min-count", 40)
    assert len(json.loads(few.stdout)["added"]) == 2
    assert few.stderr == ""
    many = run(tiny_folder, texts, "-o", tmp_path / "many", "--add", 9999)
    added = len(json.loads(many.stdout)["added"])
    assert many.stderr == f"note: there are no more than {added} words to add; 9999 were asked for\n"


def test_an_extended_tokenizer_is_extended_again(done, tmp_path, english):
    more = tmp_path / "more.txt"
    more.write_text("\n".join(f"haemodialysis {line}" for line in english[:30]), encoding="utf-8")
    finished = run(done[0], more, "-o", tmp_path / "twice", "--add", 1)
    assert json.loads(finished.stdout)["added"] == ["haemodialysis"]
    assert Tokenizer.open(tmp_path / "twice").encode("haemodialysis").ids[1:-1] == [done[1]["vocabulary"]]


def test_a_corpus_prepared_with_it_holds_the_new_tokens(done, texts, tmp_path):
    out, record = done
    finished = bertkit_command("prepare", texts, "--tokenizer", out, "-o", tmp_path / "shards", "--documents", "line")
    assert finished.returncode == 0, finished.stderr
    corpus = CorpusFolder(tmp_path / "shards")
    assert corpus.tokenizer.sha256() == record["sha256"]
    sequences = corpus.sequences(max_length=64)
    ids = {number for index in range(len(sequences)) for number in sequences[index].ids.tolist()}
    first = record["extends"]["vocabulary"]
    wanted = [first + record["added"].index(word) for word in NEW_WORDS]
    assert set(wanted) <= ids


def test_the_fitted_model_opens_in_transformers_with_the_same_outputs(bigger, tiny_folder, done):
    reference, info = BertForPreTraining.from_pretrained(bigger, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert reference.config.vocab_size == done[1]["vocabulary"]
    ids = torch.tensor([Tokenizer.open(bigger).encode("the nephrologist returns a value").ids])
    ours = load_encoder(bigger).model
    with torch.inference_mode():
        expected = reference.eval()(ids).prediction_logits
        found = ours.word_scores(ours.encoder(ids).last)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_masks_are_filled_with_old_words_in_the_same_proportions(bigger, tiny_folder, done):
    text = "The [MASK] of a list is returned."
    count = done[1]["extends"]["vocabulary"]
    before = {guess.id: guess.probability for guess in load_encoder(tiny_folder).fill_mask(text, k=count)[0]}
    after = {guess.id: guess.probability for guess in load_encoder(bigger).fill_mask(text, k=10**6)[0]}
    assert len(after) == done[1]["vocabulary"]
    old, new = (torch.tensor([odds[number] for number in range(count)]) for odds in (before, after))
    torch.testing.assert_close(new / new.sum(), old, rtol=1e-4, atol=1e-9)
    assert max(before, key=before.__getitem__) == int(new.argmax())


def test_the_new_words_are_shown_as_one_piece(bigger):
    shown = bertkit_command("tokenizer", "show", bigger, "Nephrologist")
    assert [json.loads(line)["piece"] for line in shown.stdout.splitlines()] == ["[CLS]", "nephrologist", "[SEP]"]


def test_people_see_the_words_and_the_figures_before_and_after(done, tiny_folder, texts, tmp_path):
    shown = on_a_terminal("tokenizer", "extend", tiny_folder, texts, "-o", tmp_path / "out", "--add", 60)
    record = done[1]
    assert f"{record['vocabulary']:,} pieces, {len(record['added'])} of them new" in shown
    assert ", ".join(record["added"][:5]) in shown
    figures = [f"{record[when]['pieces_per_word']:.3f}" for when in ("held_out_before", "held_out")]
    assert ["pieces", "per", "word", *figures] in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_another_family_is_refused_before_any_text_is_read(family, tmp_path, english):
    train(draw_sample(english[:200]), vocabulary(family, vocab_size=400)).tokenizer.save(tmp_path)
    finished = run(tmp_path, "nowhere.txt", "-o", tmp_path / "out")
    assert_refused(finished, 3, "only WordPiece vocabularies, BERT's, can be extended")
    assert f"--family {FAMILIES[family].tokenizer}" in finished.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("code", "text", "options", "message"),
    [
        (3, "\n  \n", [], "no text"),
        (3, "the value of the list\n" * 9, [], "nothing to add"),
        (3, "glomerulonephritis\n" * 9, ["--min-count", "10"], "no word that occurs 10 times"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tiny_folder, tmp_path, code, text, options, message):
    assert_refused(run(tiny_folder, "-", "-o", tmp_path / "out", *options, stdin=text.encode()), code, message)
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_replaced_by_its_own_tokenizer(tiny_folder, texts, tmp_path):
    model = shutil.copytree(tiny_folder, tmp_path / "model")
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    finished = run(model, texts, "-o", tmp_path / "x" / ".." / "model", "--overwrite")
    assert_refused(finished, 2, "would be replaced")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert_refused(run(model, texts, "-o", tmp_path / "taken"), 3, "exists and is not empty")
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before


def test_what_the_page_on_corpora_says_of_it_runs(tiny_folder, tmp_path, english, monkeypatch):
    shutil.copytree(tiny_folder, tmp_path / "demo" / "model")
    lines_of(["\n".join(english[i : i + 9]) for i in range(0, 2700, 9)], tmp_path / "demo" / "text.jsonl")
    shutil.copy(ROOT / "README.md", tmp_path)
    page = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ bertkit (.*)$", page, re.M)
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    for command in commands:
        finished = bertkit_command(*shlex.split(command))
        assert finished.returncode == 0, f"{command}\n{finished.stderr}"
    new = CorpusFolder(Path("extended-shards")).tokenizer
    assert new.encode("Bertkit").tokens[1:-1] == ["bertkit"]
    assert len(Tokenizer.open(tiny_folder).encode("Bertkit").tokens[1:-1]) > 1


def assert_refused(finished: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    assert finished.returncode == code, finished.stderr
    assert message in finished.stderr
    assert finished.stderr.startswith("bertkit: ")
    assert len(finished.stderr.splitlines()) == 1
    assert finished.stdout == ""
