"""Sentence vectors: the losses, what is measured, the folder that others can open, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

import bertkit
from bertkit.errors import ConfigError, InputError, MemoryLimitError, ModelFolderError, UsageError
from bertkit.families import bert_tiny
from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.infer import Scorer, load_encoder
from bertkit.nn import Bert, FineTuned, HeadShape
from bertkit.tables import Reading
from bertkit.tasks import (
    SCALE,
    Classify,
    Embed,
    PairExample,
    batch_of,
    examples_in,
    facts_of,
    row_cosines,
    search,
    search_scores,
    similarity_scores,
    task_from,
)
from bertkit.text import Tokenizer
from bertkit.train import Epoch, FinetuneRequest, FitSettings, Fitted, Transfer, interval
from bertkit.train.findings import findings
from bertkit.train.fit import fit
from bertkit.train.fit_job import new_model
from fitting import begun, term_of

Scored = Embed(max_length=64, scores=(0.0, 5.0), by_score=True)
Together = Embed(max_length=64)


def small(tokenizer: Tokenizer) -> FineTuned:
    torch.manual_seed(0)
    config = bert_tiny(
        vocab_size=tokenizer.vocab_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )
    return FineTuned(Bert(config, pooler=False, mlm=False, nsp=False), Together.head.shape).eval()


def vectors(model: FineTuned, tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
    """One text at a time, by the plain encoder."""
    found = []
    for ids in tokenizer.encode_ids(texts):
        with torch.no_grad():
            mean = model.network.encoder(torch.tensor([ids])).last[0].mean(0).double().numpy()
        found.append(mean / np.linalg.norm(mean))
    return found


def loss_of(task: Embed, model: FineTuned, tokenizer: Tokenizer, examples: list[PairExample], *, packed: bool) -> float:
    units = task.encode(examples, tokenizer).to_learn()
    term = term_of(task, model, batch_of(task, units, packed=packed, pad_id=tokenizer.pad_id))
    assert term.count == len(examples)
    return float(term.total.detach()) / term.count


def pairs_of(english: list[str], count: int) -> list[PairExample]:
    return [PairExample(f"row {n}", english[2 * n][:50], english[2 * n + 1][:70]) for n in range(count)]


def entropy(own: float, others: list[float]) -> float:
    return -SCALE * own + math.log(sum(math.exp(SCALE * each) for each in [own, *others]))


@pytest.mark.parametrize("packed", [True, False])
def test_the_loss_of_pairs_is_cross_entropy_both_ways_without_duplicates(
    english: list[str], tokenizer: Tokenizer, packed: bool
):
    model = small(tokenizer)
    examples = pairs_of(english, 7)
    examples[3] = examples[3]._replace(pair=examples[0].pair)  # one answer to two questions
    examples[4] = examples[4]._replace(text=examples[1].text)  # two answers to one question
    examples[5] = examples[5]._replace(pair=examples[2].text)  # a question that is an answer
    wrong = [line[:40] for line in english[100:107]]
    wrong[6] = examples[4].pair  # wrong for the last question, right for two others
    for negatives in (False, True):
        if negatives:
            examples = [each._replace(negative=text) for each, text in zip(examples, wrong, strict=True)]
        firsts = vectors(model, tokenizer, [each.text for each in examples])
        seconds = vectors(model, tokenizer, [each.pair for each in examples])
        thirds = vectors(model, tokenizer, wrong) if negatives else []
        total = 0.0
        for i, mine in enumerate(examples):
            rights = {each.pair for each in examples if each.text == mine.text} | {mine.text}
            there = [firsts[i] @ seconds[j] for j, each in enumerate(examples) if each.pair not in rights]
            there += [firsts[i] @ thirds[j] for j in range(len(thirds)) if wrong[j] not in rights]
            rights = {each.text for each in examples if each.pair == mine.pair} | {mine.pair}
            back = [seconds[i] @ firsts[j] for j, each in enumerate(examples) if each.text not in rights]
            own = firsts[i] @ seconds[i]
            total += (entropy(own, there) + entropy(own, back)) / 2
        assert loss_of(Together, model, tokenizer, examples, packed=packed) == pytest.approx(total / 7, abs=1e-4)


@pytest.mark.parametrize("packed", [True, False])
def test_the_loss_of_scores_sums_over_pairs_in_the_wrong_order(english: list[str], tokenizer: Tokenizer, packed: bool):
    model = small(tokenizer)
    examples = [each._replace(right=float(n % 4)) for n, each in enumerate(pairs_of(english, 9))]
    firsts = vectors(model, tokenizer, [each.text for each in examples])
    seconds = vectors(model, tokenizer, [each.pair for each in examples])
    cosines = [a @ b for a, b in zip(firsts, seconds, strict=True)]
    inside = 1.0
    for low, low_cosine in zip(examples, cosines, strict=True):
        for high, high_cosine in zip(examples, cosines, strict=True):
            if low.right < high.right:
                inside += math.exp(SCALE * (low_cosine - high_cosine))
    assert loss_of(Scored, model, tokenizer, examples, packed=packed) == pytest.approx(math.log(inside), abs=1e-4)


def test_a_batch_with_nothing_to_compare_has_no_loss_and_no_gradient(english: list[str], tokenizer: Tokenizer):
    model = small(tokenizer)
    one = pairs_of(english, 1)
    for task, examples in ((Together, one), (Scored, [one[0]._replace(right=1.0)] * 3)):
        units = task.encode(examples, tokenizer).to_learn()
        total = term_of(task, model, batch_of(task, units, packed=True, pad_id=0)).total
        total.backward()
        assert float(total.detach()) == 0
    assert all(p.grad is None or not p.grad.abs().max() for p in model.parameters())


def test_packed_and_padded_vectors_are_the_mean_over_all_tokens(english: list[str], tokenizer: Tokenizer):
    model = small(tokenizer)
    examples = pairs_of(english, 6)
    units = Together.encode(examples, tokenizer)
    plain = np.array(vectors(model, tokenizer, [text for each in examples for text in (each.text, each.pair)]))
    for packed in (True, False):
        batch = batch_of(Together, units, packed=packed, pad_id=tokenizer.pad_id)
        found = torch.nn.functional.normalize(model(batch).detach(), dim=1).numpy()
        order = np.stack([batch.targets["first"].numpy(), batch.targets["second"].numpy()], 1).ravel()
        np.testing.assert_allclose(found[order], plain, atol=1e-5)


TOPICS = ("class", "import", "return", "value", "name", "object", "list", "string")
QUICK = FitSettings(epochs=8, batch=16, learning_rate=1e-3)


def test_what_belongs_together_is_learned(tokenizer: Tokenizer):
    examples = [
        PairExample(str(n), f"{TOPICS[n % 8]} the {n}", f"{TOPICS[(n + 1) % 8]} a {n * 7 % 50}") for n in range(32)
    ]
    task = begun(Embed, examples, max_length=16).meet(examples).task
    model = small(tokenizer)
    scorer = Scorer(model, task, tokenizer)
    units = task.encode(examples, tokenizer).to_learn()
    before = task.metrics(examples, scorer.answer(examples))
    fitted = fit(model, task, units, lambda: task.metrics(examples, scorer.answer(examples)), QUICK, seed=0, pad_id=0)
    after = fitted.best.metrics
    assert task.measure.main == "mean_reciprocal_rank"
    assert after["mean_reciprocal_rank"] > before["mean_reciprocal_rank"] + 0.2


@pytest.mark.parametrize(
    "transfer",
    [Transfer(), Transfer(lora=4), Transfer(last_layers=1), Transfer(gradual=True), Transfer(layer_decay=0.8)],
)
def test_an_order_is_learned_by_every_way_of_transfer(tokenizer: Tokenizer, transfer: Transfer):
    examples = [
        PairExample(str(n), f"{TOPICS[n % 8]} one", f"{TOPICS[(n // 8) % 8]} two", 5.0 * (n % 8 == n // 8))
        for n in range(64)
    ]
    task = begun(Embed, examples, max_length=16)
    model = small(tokenizer)
    scorer = Scorer(model, task, tokenizer)
    units = task.encode(examples, tokenizer).to_learn()
    start = task.metrics(examples, scorer.answer(examples))["pearson"]
    how = FitSettings(epochs=4, batch=16, learning_rate=1e-3, transfer=transfer)
    measured: list[float] = []

    def measure() -> dict[str, float]:
        measured.append(task.metrics(examples, scorer.answer(examples))["pearson"])
        return {"spearman": measured[-1]}

    fit(model, task, units, measure, how, seed=0, pad_id=0)
    assert max(measured) > start
    assert max(measured) == pytest.approx(task.metrics(examples, scorer.answer(examples))["pearson"], abs=1e-4)


def test_what_cannot_learn_is_refused(english: list[str], tokenizer: Tokenizer):
    model, units = small(tokenizer), Together.encode(pairs_of(english, 4), tokenizer)

    def fitted(**how: Any) -> None:
        fit(model, Together, units, lambda: {"mean_reciprocal_rank": 0.0}, FitSettings(**how), seed=0, pad_id=0)

    with pytest.raises(UsageError, match="nothing is left to learn"):
        fitted(transfer=Transfer(frozen=True))
    with pytest.raises(UsageError, match="give `batch=2` or more"):
        fitted(batch=1)
    with pytest.raises(ConfigError, match="sentence vectors from a mix of layers"):
        HeadShape(reads="mean", outputs=0, mix=True)
    with pytest.raises(ConfigError, match="a head that reads 'mean' and has 3 outputs"):
        HeadShape(reads="mean", outputs=3)


def test_a_batch_is_one_pass_and_is_not_cut_when_memory_ends(
    english: list[str], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    model, units = small(tokenizer), Together.encode(pairs_of(english, 8), tokenizer)
    monkeypatch.setattr("bertkit.train.fit.TOKENS_AT_ONCE", 16)
    seen: list[int] = []
    term = Embed.term

    def watched(self: Embed, model: FineTuned, batch: Any) -> Any:
        seen.append(batch.examples)
        if len(seen) > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return term(self, model, batch)

    monkeypatch.setattr(Embed, "term", watched)
    how = FitSettings(epochs=2, batch=4)
    with pytest.raises(MemoryLimitError, match=r"a batch of 4 examples\. .*give a smaller `batch`"):
        fit(model, Together, units, lambda: {"mean_reciprocal_rank": 0.0}, how, seed=0, pad_id=0)
    assert seen == [4, 4, 4]


NUMBERS = st.floats(-1, 1, width=16)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), NUMBERS), min_size=3, max_size=30))
def test_correlations_are_those_of_scipy(rows: list[tuple[int, float]]):
    truth, cosines = (np.array(side, float) for side in zip(*rows, strict=True))
    found = similarity_scores(truth.tolist(), cosines)
    if np.ptp(truth) and np.ptp(cosines):
        assert found["spearman"] == pytest.approx(spearmanr(truth, cosines).statistic, nan_ok=True)
        assert found["pearson"] == pytest.approx(pearsonr(truth, cosines).statistic, nan_ok=True)
    else:
        assert found == {"spearman": 0.0, "pearson": 0.0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12), st.integers(0, 99))
def test_a_search_ranks_as_a_plain_count_does(rows: list[tuple[int, int]], seed: int):
    """Texts are numbers here; a few are there twice, so that the same question has several answers."""
    draw = np.random.default_rng(seed)
    table = draw.normal(size=(14, 5))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    texts, pairs = [f"q{a}" for a, _ in rows], [f"a{b}" for _, b in rows]
    firsts, seconds = table[[a for a, _ in rows]], table[[7 + b for _, b in rows]]
    found = search(texts, pairs, firsts, seconds)
    for number, (a, b) in enumerate(rows):
        belonging = {answer for question, answer in rows if question == a}
        others = {answer for _, answer in rows} - belonging
        rank = 1 + sum(table[a] @ table[7 + other] >= table[a] @ table[7 + b] for other in others)
        assert found.ranks[number] == rank
        if others:
            best = max(others, key=lambda other: table[a] @ table[7 + other])
            assert pairs[found.nearest[number]] == f"a{best}"
    scores = search_scores(found.ranks)
    assert scores["mean_reciprocal_rank"] == pytest.approx(np.mean([1 / rank for rank in found.ranks]))
    assert scores["accuracy_at_1"] == pytest.approx(np.mean([rank == 1 for rank in found.ranks]))
    np.testing.assert_allclose(row_cosines(firsts, seconds), (firsts * seconds).sum(1))


def test_equal_vectors_find_nothing():
    same = np.ones((5, 1))
    assert search(list("abcde"), list("vwxyz"), same, same).ranks.tolist() == [5] * 5


@pytest.mark.parametrize("scored", [True, False])
def test_the_interval_holds_the_score_and_the_mistakes_are_the_worst(
    english: list[str], tokenizer: Tokenizer, scored: bool
):
    model = small(tokenizer)
    examples = pairs_of(english, 40)
    if scored:
        examples = [each._replace(right=float(n % 6)) for n, each in enumerate(examples)]
    task = begun(Embed, examples, max_length=32).meet(examples).task
    answers = Scorer(model, task, tokenizer).answer(examples)
    metrics = task.metrics(examples, answers)
    score = metrics[task.measure.main]
    sums = np.array(list(task.measure.sums(examples, answers))).sum(0)
    assert task.measure.value(sums.tolist()) == pytest.approx(score, abs=1e-5)
    low, high = interval(task, examples, answers)
    assert low < score < high
    facts = findings(
        "m", task, examples, examples, answers, Fitted([], Epoch(1, 1.0, metrics)),
        seeds=[score], settings=FitSettings(), notes=[], before={task.measure.main: 0.1},
    )  # fmt: skip
    assert facts.baselines.keys() == {"the vectors before training", "bag of words"}
    assert facts.baselines["bag of words"].keys() == metrics.keys()
    assert facts.confusion is None
    if scored:
        assert len(facts.mistakes) == 20
        assert facts.mistakes[0].said.startswith("cosine ")
    else:
        ranks = np.array([1 / first for first, _ in task.measure.sums(examples, answers)]).round().astype(int)
        assert len(facts.mistakes) == min(20, int((ranks > 1).sum()))
        assert f"as number {ranks.max():,})" in facts.mistakes[0].said
        assert any("try `batch=64`" in line for line in facts.advice)


def test_a_bag_of_words_finds_texts_with_the_same_words(english: list[str], tokenizer: Tokenizer):
    examples = [PairExample(str(n), line, f"{line} indeed") for n, line in enumerate(sorted(set(english))[:30])]
    answers = Scorer(small(tokenizer), Together, tokenizer).answer(examples)
    (found,) = Together.findings(examples, answers, examples).baselines.values()
    assert found["accuracy_at_1"] > 0.9


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("embed") / "model"
    save_fine_tuned(folder, small(tokenizer), Scored, tokenizer, metrics={"spearman": 0.5}, provenance={})
    return folder


TEXTS = ["one text", "another text, somewhat longer than that", "我们喜欢学习", "x"]


def test_the_folder_gives_the_same_model_and_task(saved: Path, tokenizer: Tokenizer):
    folder = ModelFolder(saved)
    model, task = load_fine_tuned(folder)
    assert task == Scored
    for name, tensor in small(tokenizer).state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert folder.verify().keys() >= {"modules.json", "1_Pooling/config.json", "2_Normalize/config.json"}


def test_a_damaged_file_of_sentence_transformers_is_found(saved: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(saved, copy)
    (copy / "1_Pooling" / "config.json").write_text("{}")
    with pytest.raises(ModelFolderError, match=r"config\.json has changed since it was written"):
        load_encoder(copy)
    shutil.rmtree(copy / "1_Pooling")
    with pytest.raises(ModelFolderError, match=r"config\.json is missing"):
        load_encoder(copy)


def test_another_task_goes_on_from_sentence_vectors(saved: Path, tokenizer: Tokenizer):
    encoder = load_encoder(saved)
    assert not encoder.raw
    assert (encoder.default_pooling, encoder.default_normalize) == ("mean", True)
    request = FinetuneRequest(task="classify", train="", start="")
    model = new_model(ModelFolder(saved), Classify(classes=("a", "b")), request, seed=0)
    assert model.network.pooler is not None


def test_an_encoder_uses_its_pooling_and_length_without_being_told(saved: Path, tokenizer: Tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load_encoder(saved).embed(TEXTS)
    np.testing.assert_allclose(found, vectors(small(tokenizer), tokenizer, TEXTS), atol=1e-5)
    model = bertkit.load(saved)
    assert model((TEXTS[0], TEXTS[1])) == {"cosine": pytest.approx(float(found[0] @ found[1]), abs=1e-5)}
    both = model([(TEXTS[0], TEXTS[1]), {"text": TEXTS[2], "pair": TEXTS[3]}])
    assert json.loads(json.dumps(both))[1] == {"cosine": pytest.approx(float(found[2] @ found[3]), abs=1e-5)}
    with pytest.raises(InputError, match=r"input 1 is 'one text'. Pass two texts .* bertkit embed"):
        model("one text")
    with pytest.raises(InputError, match="is empty"):
        model(("one", " "))


def test_transformers_opens_it_and_the_mean_over_the_mask_is_the_same_vector(saved: Path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModel.from_pretrained(saved).eval()
    assert type(theirs).__name__ == "BertModel"
    batch = transformers.AutoTokenizer.from_pretrained(saved)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = theirs(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    np.testing.assert_allclose(load_encoder(saved).embed(TEXTS), means.numpy(), atol=1e-5)


def test_the_folder_has_what_sentence_transformers_reads(saved: Path, minilm: Path):
    ours, theirs = (json.loads((folder / "modules.json").read_text()) for folder in (saved, minilm))
    assert ours == theirs
    ours, theirs = (json.loads((folder / "1_Pooling" / "config.json").read_text()) for folder in (saved, minilm))
    assert ours == {**theirs, "word_embedding_dimension": 128}
    ours, theirs = (json.loads((folder / "sentence_bert_config.json").read_text()) for folder in (saved, minilm))
    assert ours == {**theirs, "max_seq_length": 64}


def test_cosines_of_a_raw_model_are_warned_of_once(tiny_folder: Path):
    raw = load_encoder(tiny_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raw.embed(TEXTS)
    with pytest.warns(UserWarning, match="bertkit finetune embed PAIRS"):
        raw.embed(TEXTS, normalize=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raw.embed(TEXTS, normalize=True)
        list(raw.embed_stream(TEXTS, normalize=True))


@pytest.mark.parametrize(
    ("content", "names", "told"),
    [
        ("text,label\na b,1\n", {}, r"no column is plainly the pair. Name it with `pair_column`"),
        (
            "text1,text2\na b,c d\n",
            {"pair": "text3"},
            r"no column 'text3'; .* Did you mean 'text[12]'",
        ),
        ("text1,text2\na b,c d\ne f,\n", {}, r"line 3: the pair is empty"),
        ("text1,text2,score\na,b,1\nc,d,nan\n", {}, r"line 3: the score is 'nan', not a number.*`score_column=none`"),
        ("premise,hypothesis,label\na,b,neutral\n", {}, r"line 2: .*is 'neutral', not a number.*`score_column=none`"),
        ("text1,text2,negative\na,b,\n", {}, r"line 2: the negative is empty"),
        ("text1,text2\na,b\n", {"endings": "x"}, r"a column for the endings is named, and the task has none"),
    ],
)
def test_bad_files_are_explained(tmp_path: Path, content: str, names: dict[str, str], told: str):
    (tmp_path / "pairs.csv").write_text(content)
    with pytest.raises((InputError, UsageError), match=told):
        list(examples_in(Embed, str(tmp_path / "pairs.csv"), Reading(names=names), []))


def test_columns_are_found_by_name_or_not_taken(tmp_path: Path):
    def read(content: str, **reading: Any) -> tuple[list[PairExample], str]:
        (tmp_path / "pairs.tsv").write_text(content)
        notes: list[str] = []
        return list(examples_in(Embed, str(tmp_path / "pairs.tsv"), Reading(**reading), notes)), " ".join(notes)

    found, said = read("question\tanswer\nwhy?\tso\n")
    assert (found[0].text, found[0].pair, found[0].right) == ("why?", "so", None)
    assert "text is 'question', pair is 'answer'" in said
    found, _ = read("anchor\tpositive\tnegative\na\tb\tc\n")
    assert found[0].negative == "c"
    found, _ = read("question1\tquestion2\tis_duplicate\na\tb\t1\n")
    assert found[0].right == 1.0
    found, _ = read("text1\ttext2\tscore\na\tb\t1\n", names={"score": "none"})
    assert found[0].right is None
    found, _ = read("text1\ttext2\tscore\na\tb\twhatever\n", labelled=False)
    assert found[0].right is None


def test_scores_decide_what_is_learned_and_what_is_measured():
    scored = [PairExample("1", "a", "b", 2.0), PairExample("2", "c", "d", 4.0)]
    together = [each._replace(right=None) for each in scored]
    task = begun(Embed, scored)
    assert task.scores == (2.0, 4.0)
    assert Embed.begin(scored, Embed.options(), 512).notes == [
        "the scores 2 to 4 are taken as 0 to 1, and their order is learned"
    ]
    assert task.measure.main == "spearman"
    assert task.meet(together).task.measure.main == "mean_reciprocal_rank"
    assert begun(Embed, together).meet(scored).task.measure.main == "spearman"
    assert task_from(Embed, json.loads(json.dumps(facts_of(task)))) == task
    same = [each._replace(right=3.0) for each in scored]
    with pytest.raises(InputError, match=r"every score in the training data is 3.*`score_column=none`"):
        begun(Embed, same)
    with pytest.raises(InputError, match="every score in what is measured on is 3"):
        task.meet(same)
    with pytest.raises(InputError, match="there is a score and a text that does not belong"):
        begun(Embed, [each._replace(negative="x") for each in scored])


def test_a_text_that_is_too_long_is_cut_and_that_is_known(tokenizer: Tokenizer):
    (unit,) = Embed(max_length=8).encode([PairExample("1", "class " * 30, "short")], tokenizer)
    assert [len(each.ids) for each in unit] == [8, len(tokenizer.encode_ids(["short"])[0])]
    assert [each.whole for each in unit] == [False, True]
