"""Text to numbers, counts of pairs, questions to vectors, and vectors of other programs."""

import json
import random
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertkit import load_words
from bertkit.errors import BertkitError, InputError, UsageError, WriteError
from bertkit.families import METHODS
from bertkit.text import Tokenizer
from bertkit.words import (
    FIRST,
    LEARNED,
    SHUFFLED,
    Counted,
    Interpolated,
    Pairs,
    TrainingWords,
    WordVectors,
    deal_out,
    evaluate,
    examples,
    export_words,
    import_words,
    open_stream,
    read_stream,
    read_vectors,
    save_words,
    tokenizer_of,
    words_of,
    write_vectors,
)

WORDS = "the of king queen man woman paris france rome italy".split()


@pytest.fixture(scope="module")
def table():
    """In which a capital is its country and one thing more, and a queen is a king and one thing more."""
    draw = np.random.default_rng(0)
    found = draw.normal(0, 1, (len(WORDS), 16)).astype(np.float32)
    rows = {word: row for row, word in enumerate(WORDS)}
    found[rows["queen"]] = found[rows["king"]] - found[rows["man"]] + found[rows["woman"]]
    found[rows["rome"]] = found[rows["italy"]] - found[rows["france"]] + found[rows["paris"]]
    return found


@pytest.fixture
def vectors(table, tmp_path):
    out = tmp_path / "vectors"
    rows = np.concatenate([np.zeros((FIRST, 16), np.float32), table])
    save_words(out, WORDS, rows, method="imported", lowercase=True, provenance={})
    return out


def texts(path, count=60, seed=0):
    draw = random.Random(seed)
    letters = [chr(97 + number) * 3 for number in range(20)]
    weights = [1 / (number + 1) for number in range(20)]
    lines = (" ".join(draw.choices(letters, weights, k=draw.randrange(1, 30))) for _ in range(count))
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def stream_of(text, folder, **settings):
    folder.mkdir(exist_ok=True)
    asked = TrainingWords(inputs=(str(text),), out=folder / "out", **settings)
    return read_stream(asked.inputs, asked.reading(), folder)


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_are_cut_as_the_tokenizer_cuts_them(lowercase):
    text = "The bank's: don't 'quote' it, café-Bar, 我们学习语言。3.5% e_f ’s ünïcode हिन्दी\tx  y\nnew line A.B."
    counted = Counted(lowercase=lowercase)
    numbers = counted.add(text + "\n")
    words, counts, rows = counted.vocabulary(1, None)
    tokenizer = tokenizer_of(words, lowercase=lowercase)
    ids = [token for line in text.split("\n") for token in [*tokenizer.encode_ids([line])[0][1:-1], 0]]
    assert rows[numbers].tolist() == ids
    assert counts.tolist() == [Counter(ids)[FIRST + row] for row in range(len(words))]
    assert ("the" in words) == lowercase
    assert {"我们", "学习", "语言", "'s", "'t", "e_f"} <= {*words}


def test_memory_of_words_is_bounded_and_what_was_forgotten_is_told():
    counted = Counted(lowercase=True, most=100)
    for number in range(1000):
        counted.add(f"often seldom{number} word{number}\n")
    words, counts, _ = counted.vocabulary(2, None)
    assert words == ["often"]
    assert counts.tolist() == [1000]
    assert counted.forgotten


def test_offsets_of_chinese_words_are_those_of_the_text(vectors):
    text = "我们学习语言,the king爱Python"
    encoded = tokenizer_of(["我们", "the", "king"], lowercase=True).encode(text)
    found = [text[a:b] for a, b in encoded.offsets[1:-1]]
    assert found == ["我们", "学习", "语言", ",", "the", "king", "爱", "Python"]


def test_a_tokenizer_of_words_is_opened_as_it_was_saved(vectors):
    tokenizer = Tokenizer.open(vectors)
    assert tokenizer.encode("The King, unheard").tokens == ["[CLS]", "the", "king", "[UNK]", "[UNK]", "[SEP]"]
    phrases = tokenizer_of([*WORDS, "new york"], lowercase=True)
    assert phrases.encode("New York, newyork").tokens == ["[CLS]", "new york", "[UNK]", "[UNK]", "[SEP]"]


def brute_force(numbers, window, weighted, ordered):
    found = Counter()
    for line in np.split(numbers, np.flatnonzero(numbers == 0)):
        words = line[line != 0].tolist()
        if not ordered:
            words = [word for word in words if word >= FIRST]
        for place, word in enumerate(words):
            for back in range(1, window + 1):
                if place - back < 0 or word < FIRST or words[place - back] < FIRST:
                    break
                other = words[place - back]
                key = (other, word) if ordered or other < word else (word, other)
                found[key] += 1 / back if weighted else 1
    return found


@pytest.mark.parametrize("memory", [2**12, 2**16, 2**28], ids=["runs", "runs-and-table", "table"])
@pytest.mark.parametrize(("window", "weighted", "ordered"), [(5, True, False), (1, False, True)])
def test_counts_of_pairs_are_those_of_a_brute_force_count(tmp_path, window, weighted, ordered, memory):
    draw = np.random.default_rng(1)
    numbers = draw.integers(FIRST, FIRST + 300, 20_000).astype(np.uint32)
    numbers[draw.random(20_000) < 0.05] = 0
    numbers[draw.random(20_000) < 0.05] = 1
    pairs = Pairs(numbers, 300, tmp_path / "pairs", window=window, weighted=weighted, ordered=ordered, memory=memory)
    assert bool(pairs.runs) == (memory < 2**28)
    found = Counter()
    for keys, counts in pairs.stretches():
        assert len(np.unique(keys)) == len(keys)
        for first, second, count in zip(*words_of(keys), counts, strict=True):
            assert (first, second) not in found
            found[int(first), int(second)] = count
    wanted = brute_force(numbers, window, weighted, ordered)
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(count) for key, count in wanted.items())
    pairs.forget()
    assert not (tmp_path / "pairs").exists()


def test_shuffled_pairs_are_all_of_them_both_ways_and_in_no_order(tmp_path):
    stream = stream_of(texts(tmp_path / "text.jsonl", 300), tmp_path / "work", min_count=1)
    deal_out(stream, 5, tmp_path / "dealt", 2**16, seed=0)
    files = sorted((tmp_path / "dealt").glob("deal-*"))
    found = Counter()
    for file in files:
        for word, beside, count in np.fromfile(file, SHUFFLED).tolist():
            found[word, beside] += count
    wanted = Counter()
    for (a, b), count in brute_force(np.asarray(stream.numbers), 5, True, False).items():
        wanted[a, b] += count
        wanted[b, a] += count
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(count, rel=1e-5) for key, count in wanted.items())
    assert not (tmp_path / "dealt" / "runs").exists()


def test_a_disk_that_is_too_small_is_told_before_it_is_full(tmp_path, monkeypatch):
    stream = stream_of(texts(tmp_path / "text.jsonl", 300), tmp_path / "work", min_count=1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(WriteError, match=r"would take .* GB, and 0.0 GB are free"):
        deal_out(stream, 5, tmp_path / "dealt", 2**16, seed=0)


def test_a_stream_is_read_once_and_found_again(tmp_path):
    text = texts(tmp_path / "text.jsonl")
    stream = stream_of(text, tmp_path / "work", min_count=2)
    text.write_text("other")
    again = open_stream(tmp_path / "work")
    assert again.words == stream.words
    assert (again.numbers == stream.numbers).all()
    assert stream.counts.tolist() == sorted(stream.counts, reverse=True)
    assert stream.facts["known"] == np.count_nonzero(stream.numbers >= FIRST)
    parts = stream.parts(50)
    assert parts[0][0] == 0
    assert parts[-1][1] == len(stream.numbers)
    assert all(stream.numbers[stop - 1] == 0 for _, stop in parts)


def test_pairs_that_belong_together_become_one_word(tmp_path):
    draw = random.Random(0)
    others = [f"w{number}" for number in range(50)]
    lines = [
        " ".join([*draw.choices(others, k=5), "new", "york", "city", *draw.choices(others, k=5)]) for _ in range(80)
    ]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    plain = stream_of(tmp_path / "text.txt", tmp_path / "a", min_count=5)
    once = stream_of(tmp_path / "text.txt", tmp_path / "b", min_count=5, phrases=1, phrase_threshold=5.0)
    twice = stream_of(tmp_path / "text.txt", tmp_path / "c", min_count=5, phrases=2, phrase_threshold=5.0)
    assert "new york" in once.words
    assert "new york city" in twice.words
    assert "city" not in twice.words
    assert dict(zip(twice.words, twice.counts.tolist(), strict=True))["new york city"] == 80
    assert len(plain.numbers) - len(twice.numbers) == 2 * 80


def test_an_ngram_model_of_a_sure_thing_is_sure():
    block = np.array(([4, 5, 6, 0] * 2000), np.uint32)
    model = Interpolated.of(examples(block, 3), 7)
    assert model.perplexity(examples(block[:400], 3)) < 1.01
    noise = np.random.default_rng(0).integers(4, 7, 8000).astype(np.uint32)
    assert Interpolated.of(examples(noise, 3), 7).perplexity(examples(noise[:2000], 3)) == pytest.approx(3, rel=0.05)


def test_vectors_are_a_mapping(vectors, table):
    words = load_words(vectors)
    assert len(words) == len(WORDS)
    assert list(words) == WORDS
    assert "king" in words
    assert "King" in words
    assert "prince" not in words
    assert 3 not in words
    np.testing.assert_array_equal(words["king"], table[WORDS.index("king")])
    assert words.get("prince") is None
    with pytest.raises(InputError, match=r"has no word 'quen'. Did you mean 'queen'"):
        words["quen"]


@pytest.mark.parametrize("multiply", [True, False])
def test_analogies_and_neighbours(vectors, multiply):
    words = load_words(vectors)
    assert words.analogy("man", "king", "woman", count=1, multiply=multiply)[0].word == "queen"
    near = words.nearest("king", count=100)
    assert len(near) == len(WORDS) - 1
    assert [each.score for each in near] == sorted((each.score for each in near), reverse=True)
    assert near[0].score == pytest.approx(words.similarity("king", near[0].word), abs=1e-6)
    assert words.similarity("king", "king") == pytest.approx(1)


def test_evaluation_says_how_much_could_be_asked(vectors, tmp_path):
    words = load_words(vectors)
    (tmp_path / "a.txt").write_text(
        ": capitals\nparis france rome italy\nParis France Oslo Norway\n: gram1 kin\nman king woman queen\n"
    )
    facts = evaluate(words, tmp_path / "a.txt")
    assert (facts["accuracy"], facts["asked"], facts["coverage"]) == (1.0, 2, pytest.approx(2 / 3))
    assert facts["sections"]["capitals"] == {"accuracy": 1.0, "asked": 1}
    pairs = [("king", "queen"), ("paris", "rome"), ("man", "of"), ("the", "italy")]
    lines = [f"{a}\t{b}\t{words.similarity(a, b):.6f}" for a, b in pairs] + ["king\tprince\t3.0"]
    (tmp_path / "b.tsv").write_text("# a remark\nword 1\tword 2\tmean\n" + "\n".join(lines))
    facts = evaluate(words, tmp_path / "b.tsv")
    assert (facts["spearman"], facts["asked"], facts["coverage"]) == (pytest.approx(1.0), 4, 0.8)
    for content, problem in ((": s\na b c\n", "not four words"), ("a b\n", "neither four words"), ("", "no questions")):
        (tmp_path / "c.txt").write_text(content)
        with pytest.raises(InputError, match=problem):
            evaluate(words, tmp_path / "c.txt")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that gensim leaves open
@pytest.mark.parametrize("kind", ["word2vec", "word2vec-binary", "glove"])
def test_gensim_opens_ours_with_the_same_neighbours_and_we_what_it_writes(vectors, tmp_path, kind):
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    ours, binary = load_words(vectors), kind == "word2vec-binary"
    export_words(vectors, tmp_path / "file", kind, overwrite=False)
    theirs = keyed.load_word2vec_format(tmp_path / "file", binary=binary, no_header=kind == "glove")
    for word in WORDS:
        near = [each.word for each in ours.nearest(word, count=5)]
        assert [name for name, _ in theirs.most_similar(word, topn=5)] == near
    theirs.save_word2vec_format(tmp_path / "back", binary=binary)
    import_words(tmp_path / "back", tmp_path / "again", overwrite=False)
    np.testing.assert_array_equal(load_words(tmp_path / "again").table, ours.table)


def test_gensims_own_file_is_a_pickle_and_is_refused(tmp_path):
    keyed = pytest.importorskip("gensim.models").KeyedVectors(vector_size=3)
    keyed.add_vectors(["a", "b"], np.ones((2, 3), np.float32))
    keyed.save(str(tmp_path / "file.kv"))
    with pytest.raises(InputError, match=r"pickle.*save_word2vec_format"):
        import_words(tmp_path / "file.kv", tmp_path / "out", overwrite=False)


def test_model2vec_and_sentence_transformers_open_what_is_exported_and_it_comes_back(vectors, tmp_path):
    static = tmp_path / "static"
    export_words(vectors, static, "static", overwrite=False)
    ours = load_words(vectors)
    mean = (ours["king"] + ours["paris"]) / 2
    model2vec = pytest.importorskip("model2vec")
    np.testing.assert_allclose(model2vec.StaticModel.from_pretrained(static).encode("King Paris"), mean, atol=1e-5)
    import_words(static, tmp_path / "back", overwrite=False)
    back = load_words(tmp_path / "back")
    assert list(back) == WORDS
    np.testing.assert_array_equal(back.table, ours.table)
    model2vec.StaticModel.from_pretrained(static).save_pretrained(tmp_path / "theirs")
    import_words(tmp_path / "theirs", tmp_path / "again", overwrite=False)
    np.testing.assert_array_equal(load_words(tmp_path / "again").table, ours.table)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"2 3\na 1 2 3\na 1 2 3\n", "line 3: the word 'a' is there already, in place 2"),
        (b"2 3\na 1 2 3\nb 1 2\n", "line 3: 2 numbers behind a word, and before it were 3"),
        (b"a 1 2 3\nb 1 2 3 4\nb c 1 2\n", "line 3: the word 'b'|line 3"),
        (b"a 1 2 3\nb 1 2 x\n", "line 2: b'x' is no number"),
        (b"a 1 nan 3\nb 1 2 1\n", "row 1: not all of its numbers are finite"),
        (b"3 3\na 1 2 3\nb 1 2 4\n", "says 3 words, and there are 2"),
        (b"1 3\na 1 2 3\nb 1 2 4\n", "says 1 words, and there are more"),
        (b"0 3\n", "says 0 words"),
        (b"2 3\na \x01\x02\x03\x04" + bytes(8), "ends, or breaks, in row 2 of 2"),
        (b"900000 300\na " + bytes(1200), "more than it can hold"),
        (b"2 1\na \x00\x00\x80\x3fa \x00\x00\x80\x3f", "row 2: the word 'a' is there already"),
        (b"\xff\xfe 1 2\n", "is not UTF-8"),
        (b"lonely\n", "no word with numbers"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_with_the_place(tmp_path, content, problem):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BertkitError, match=problem):
        import_words(tmp_path / "file", tmp_path / "out", overwrite=False)
    assert not (tmp_path / "out").exists()


def test_published_forms_are_read(tmp_path):
    fast = b"3 2\n</s> 0 0\nking 0.5 -0.25\n. . . 1e-3 2\n"
    (tmp_path / "file.vec").write_bytes(fast)
    found = read_vectors(tmp_path / "file.vec")
    assert found.words == ["</s>", "king", ". . ."]
    assert found.vectors[2].tolist() == pytest.approx([1e-3, 2])
    assert read_vectors(tmp_path / "file.vec", limit=2).words == ["</s>", "king"]
    google = b"2 2\nnew_york " + struct.pack("<2f", 1, 2) + b"a " + struct.pack("<2f", 3, 4)
    (tmp_path / "file.bin").write_bytes(google)
    assert read_vectors(tmp_path / "file.bin").vectors.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(UsageError, match="no format of one file"):
        write_vectors(tmp_path / "x", ["a"], np.ones((1, 2)), "static")


def test_words_never_seen_have_vectors_of_their_ngrams(tmp_path):
    ngrams = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    rows = np.zeros((FIRST + 2, 4), np.float32)
    save_words(tmp_path / "v", ["one", "two"], rows, method="skip-gram", lowercase=True, ngrams=ngrams, provenance={})
    words = load_words(tmp_path / "v")
    assert "three" not in words
    assert words["three"].shape == (4,)
    assert not (words["Three"] - words["three"]).any()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"method": "glove", "negative": 7}, "`negative` with glove"),
        ({"method": "skip-gram", "x_max": 7.0}, "`x_max` with skip-gram"),
        ({"method": "one-hot", "epochs": 3}, "with one-hot"),
        ({"shortest_ngram": 5, "longest_ngram": 4}, "Give the shorter one first"),
        ({"method": "glov"}, "Did you mean 'glove'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, problem):
    with pytest.raises(UsageError, match=problem):
        TrainingWords(inputs=("x",), out=Path("y"), **settings)


def test_text_that_nobody_has_cut_into_words_is_refused(tmp_path):
    draw = random.Random(0)
    lines = ("".join(chr(0x0E01 + draw.randrange(40)) for _ in range(300)) for _ in range(30))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match="put spaces between them"):
        stream_of(tmp_path / "text.txt", tmp_path / "work", min_count=1)
    (tmp_path / "few.txt").write_text("a single line of words that all come once\n")
    with pytest.raises(InputError, match="0 words come at least 5 times"):
        stream_of(tmp_path / "few.txt", tmp_path / "work")


def test_a_vector_table_says_what_it_is_asked():
    words = WordVectors(["a", "b"], np.eye(2, dtype=np.float32))
    assert words.similarity("a", "b") == 0
    with pytest.raises(UsageError, match="2 words"):
        words.without_match("a", "b")


def test_what_can_be_learned_is_what_a_folder_can_be_of():
    assert (*LEARNED, "imported") == METHODS
