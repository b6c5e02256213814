"""Which words an answer hung on."""

from __future__ import annotations

import copy
import random

import pytest
import torch

from bertkit.errors import InputError
from bertkit.infer import Scorer
from bertkit.infer.explain import explain
from bertkit.nn import Bert, FineTuned, Pooler, lay_out
from bertkit.tasks import Classify, Regress
from bertkit.text import Tokenizer

FILLING = "the class of an object is a name that we use for each list of it and so on".split()


def model_for(tiny: Bert, task: Classify | Regress) -> FineTuned:
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    bert.pooler = Pooler(bert.config)
    return FineTuned(bert, task.head.shape)


@pytest.fixture(scope="module")
def trained(tiny: Bert, tokenizer: Tokenizer) -> Scorer:
    """A classifier that was taught to tell texts with `value` or 苹 in them from texts with `module` or 句."""
    torch.manual_seed(0)
    drawn = random.Random(0)
    task = Classify(classes=("no", "yes"), max_length=32)
    model = model_for(tiny, task).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(60):
        labels, sequences = [], []
        for _ in range(16):
            label = drawn.randrange(2)
            words = drawn.choices(FILLING, k=6)
            words.insert(drawn.randrange(7), drawn.choice((("module", "句"), ("value", "苹"))[label]))
            encoded = tokenizer.encode(" ".join(words))
            labels.append(label)
            sequences.append((encoded.ids, encoded.segments))
        scores = model(lay_out(sequences, packed=False, pad_id=tokenizer.pad_id))
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.2
    return Scorer(model.eval(), task, tokenizer)


@pytest.mark.parametrize(
    ("text", "decisive", "label"),
    [
        ("the name of a value that we use", "value", "yes"),
        ("it is a module for an object", "module", "no"),
        ("一个苹", "苹", "yes"),
    ],
)
def test_the_word_that_decides_has_the_largest_share(trained: Scorer, text: str, decisive: str, label: str):
    found = explain(trained, text)
    assert found.label == label
    assert max(found.words, key=lambda each: each.score).word == decisive
    assert "".join(each.word for each in found.words) == text.replace(" ", "")
    assert all(text[each.start : each.end] == each.word for each in found.words)


def test_the_same_word_speaks_against_the_other_label(trained: Scorer):
    found = explain(trained, "the name of a value", label="no")
    assert found.label == "no"
    assert min(found.words, key=lambda each: each.score).word == "value"
    assert min(each.score for each in found.words) < 0


def test_the_shares_add_up_to_what_the_text_adds(trained: Scorer):
    text = "the name of a value that we use"
    found = explain(trained, text, label="yes")
    empty = explain(trained, " ".join(["[MASK]"] * len(found.words)), label="yes")
    assert sum(each.score for each in found.words) == pytest.approx(found.log_odds - empty.log_odds, abs=0.35)
    assert all(each.score == pytest.approx(0, abs=1e-6) for each in empty.words)


def test_of_a_pair_both_texts_are_explained(trained: Scorer):
    found = explain(trained, "the name", "of a value")
    assert [(each.text, each.word) for each in found.words] == [
        (0, "the"),
        (0, "name"),
        (1, "of"),
        (1, "a"),
        (1, "value"),
    ]


def test_explaining_changes_nothing(trained: Scorer):
    before = trained.fingerprint()
    explain(trained, "the name of a value")
    assert trained.fingerprint() == before
    assert not trained.model.network.encoder.embeddings.word._forward_hooks


def test_what_cannot_be_explained_is_refused(trained: Scorer, tiny: Bert, tokenizer: Tokenizer):
    with pytest.raises(InputError, match=r"no label is called 'yess'.*Did you mean 'yes'"):
        explain(trained, "a value", label="yess")
    with pytest.raises(InputError, match="tokens, and answers to 32 can be explained"):
        explain(trained, "value " * 40)
    with pytest.raises(InputError, match="the text is empty"):
        explain(trained, " ")
    regress = Regress(max_length=32)
    with pytest.raises(InputError, match="Only classifiers"):
        explain(Scorer(model_for(tiny, regress), regress, tokenizer), "a value")
