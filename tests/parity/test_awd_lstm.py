"""An AWD-LSTM computes what fastai's does with the same weights, layer by layer and stretch after stretch."""

from __future__ import annotations

import pytest
import torch

from bertkit.families import PRESETS, family_of_size
from bertkit.nn import LEFT, lay_out

awdlstm = pytest.importorskip("fastai.text.models.awdlstm", reason="fastai is not installed (the fastai extra has it)")
WORDS, WIDE, CELL, LAYERS = 60, 24, 40, 3
DROPPED = {"input_p": 0.25, "hidden_p": 0.15, "embed_p": 0.02, "weight_p": 0.2}


def both():
    torch.manual_seed(1)
    sizes = {"vocab_size": WORDS, "hidden_size": WIDE, "cell_size": CELL, "num_hidden_layers": LAYERS}
    ours = family_of_size("awd-lstm").build(PRESETS["awd-lstm"](**sizes, hidden_dropout_prob=0.1))
    theirs = awdlstm.AWD_LSTM(WORDS, WIDE, CELL, LAYERS, pad_token=1, **DROPPED)
    with torch.no_grad():
        theirs.encoder.weight.copy_(ours.pieces.weight)
        for mine, its in zip(ours.way.layers, theirs.rnns, strict=True):
            its.weight_hh_l0_raw.copy_(mine.weight_hh)
            its.module.weight_hh_l0.copy_(mine.weight_hh)
            its.module.weight_ih_l0.copy_(mine.weight_ih)
            its.module.bias_ih_l0.copy_(mine.bias_ih)
            its.module.bias_hh_l0.copy_(mine.bias_hh)
    return ours, theirs


def test_both_say_the_same_of_stretch_after_stretch():
    ours, theirs = both()
    ours.eval()
    theirs.eval()
    theirs.reset()
    remembered = None
    for _ in range(3):
        ids = torch.randint(2, WORDS, (4, 17))
        with torch.no_grad():
            mine, remembered = ours.onwards(ids, LEFT, remembered)
            torch.testing.assert_close(mine, theirs(ids), atol=1e-5, rtol=0)


def test_a_reader_says_what_theirs_does():
    ours, theirs = both()
    ours.eval()
    theirs.eval()
    texts = [[5, 9, 11, 7], [4, 10, 12, 14, 6, 5, 9]]
    laid = lay_out([(ids, [0] * len(ids)) for ids in texts], packed=True, pad_id=0)
    with torch.no_grad():
        x = ours.read(laid)
        for first, ids in zip(laid.firsts.tolist(), texts, strict=True):
            theirs.reset()
            its = theirs(torch.tensor([ids]))[0]
            torch.testing.assert_close(x[first : first + len(ids)], its, atol=1e-5, rtol=0)


def test_each_dropout_is_theirs():
    ours, theirs = both()
    assert ours.way.drops[0].p == pytest.approx(theirs.input_dp.p)
    assert [each.p for each in ours.way.drops[1:]] == pytest.approx([each.p for each in theirs.hidden_dps[:-1]])
    assert [each.drop for each in ours.way.layers] == pytest.approx([each.weight_p for each in theirs.rnns])
    assert ours.pieces.drop == pytest.approx(theirs.encoder_dp.embed_p)
