"""Next words asked beside a task, as GPT is fine-tuned."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import UsageError
from bertkit.families import bert_tiny
from bertkit.nn import Bert, FineTuned, HeadShape, lay_out
from bertkit.objectives import next_word_term
from bertkit.tables import TextExample
from bertkit.tasks import Classify
from bertkit.text import Tokenizer
from bertkit.train import FitSettings
from bertkit.train.fit import fit
from fitting import begun

SEQUENCES = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=5)


def left_to_right(words: int) -> Bert:
    torch.manual_seed(0)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Bert(bert_tiny(vocab_size=words, causal=True, **without_dropout), pooler=False, nsp=False)


@settings(deadline=None, max_examples=25)
@given(SEQUENCES, st.booleans())
def test_every_token_but_the_first_of_a_sequence_is_asked_for(sequences: list[list[int]], packed: bool):
    model = left_to_right(100).eval()
    sequences.sort(key=len, reverse=True)
    inputs = lay_out([(ids, [0] * len(ids)) for ids in sequences], packed=packed, pad_id=0)
    term = next_word_term(model, inputs, model.encoder.read(inputs))
    expected = torch.zeros(())
    for ids in sequences:
        scores = model.word_scores(model.encoder(torch.tensor([ids])).last)[0]
        expected = expected + F.cross_entropy(scores[:-1], torch.tensor(ids[1:]).long(), reduction="sum")
    assert term.count == sum(len(ids) - 1 for ids in sequences)
    torch.testing.assert_close(term.total, expected, rtol=1e-4, atol=1e-4)


def language_loss(model: Bert, units: list[list[int]]) -> float:
    inputs = lay_out([(ids, [0] * len(ids)) for ids in units], packed=False, pad_id=0)
    with torch.no_grad():
        return float(next_word_term(model, inputs, model.encoder.read(inputs)).total)


def test_with_a_weight_the_language_is_learned_beside_the_task(tokenizer: Tokenizer):
    examples = [
        TextExample(str(n), f"return {'value' if n % 2 else 'class'} import", None, str(n % 2)) for n in range(32)
    ]
    task = begun(Classify, examples, max_length=16)
    units = task.encode(examples, tokenizer).to_learn()
    losses = {}
    for weight in (0.0, 0.5):
        bert = left_to_right(tokenizer.vocab_size)
        head = bert.mlm
        model = FineTuned(bert, HeadShape(reads="last", outputs=2))
        how = FitSettings(epochs=10, batch=8, learning_rate=1e-3, language_weight=weight)
        fit(model, task, units, None, how, seed=0, pad_id=0)
        assert model.network.mlm is None
        bert.mlm = head
        losses[weight] = language_loss(bert.eval(), [list(features.ids) for unit in units for features in unit])
    assert losses[0.5] < 0.5 * losses[0.0]


def test_gpts_have_the_weight_of_their_paper_and_others_none():
    assert FitSettings.usual(width=128, units=10, family="gpt2").language_weight == 0.5
    assert FitSettings.usual(width=128, units=10, family="bert").language_weight == 0.0
    with pytest.raises(UsageError, match=r"GPT's is 0\.5"):
        FitSettings(language_weight=-1.0)
