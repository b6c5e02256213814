"""Which words a classifier's answer hung on: integrated gradients (Sundararajan et al., 2017).

The words' vectors are moved in steps from that of [MASK], a text of which nothing is known, to their own. What each
vector's way adds to the label's log-odds, summed over the steps, is its word's share; all shares together are what the
text as a whole adds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.infer.embedding import word_spans
from bertkit.infer.scoring import Scorer
from bertkit.nn.inputs import lay_out
from bertkit.tasks.data import Head
from bertkit.tensors import require_finite
from bertkit.text.tokenizer import Encoded, without_surrogates

STEPS = 24
TOKENS_AT_ONCE = 512
"""All that is computed on the way to a gradient is kept until then."""
MOST_TOKENS = 256
"""Gradients of a longer text keep everybody else waiting."""


class Share(NamedTuple):
    word: str
    text: int
    """0, or 1 in the second text."""
    start: int
    end: int
    score: float
    """In log-odds: above 0 it speaks for the label, below against it."""


class Explanation(NamedTuple):
    label: str
    log_odds: float
    words: list[Share]

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "log_odds": self.log_odds, "words": [each._asdict() for each in self.words]}


def require_classifier(scorer: Scorer, label: str | None) -> Head:
    """Refuse a model or a label that there is nothing to explain of."""
    task = scorer.task
    if not task.head.is_classifier:
        raise InputError(f"{scorer.encoder.name} is a model for {task.name}", "Only classifiers can be explained.")
    if label is not None and label not in task.head.labels:
        there = ", ".join(map(repr, task.head.labels[:12]))
        raise InputError(
            f"no label is called {shortened(label)}", f"{nearest(label, task.head.labels)} There are: {there}.".strip()
        )
    return task.head


def encode_to_explain(scorer: Scorer, text: str, pair: str | None = None) -> Encoded:
    encoded = scorer.tokenizer.encode(without_surrogates(text), None if pair is None else without_surrogates(pair))
    most = min(MOST_TOKENS, scorer.task.max_length)
    if len(encoded.ids) > most:
        raise InputError(
            f"the text has {len(encoded.ids):,} tokens, and answers to {most} can be explained", "Shorten it."
        )
    if len(encoded.ids) <= scorer.tokenizer.frame.size(pair=pair is not None):
        raise InputError("the text is empty", "Give one with words.")
    return encoded


def explain(scorer: Scorer, text: str, pair: str | None = None, *, label: str | None = None) -> Explanation:
    """What each word adds to the label's log-odds; to those of the likeliest label unless one is named."""
    head = require_classifier(scorer, label)
    return explain_encoded(scorer, head, encode_to_explain(scorer, text, pair), (text, pair or ""), label)


def explain_encoded(
    scorer: Scorer, head: Head, encoded: Encoded, texts: tuple[str, str], label: str | None
) -> Explanation:
    ids = torch.tensor(encoded.ids, device=scorer.encoder.device)
    inside = torch.tensor([text is not None for text in encoded.texts], device=ids.device)
    training = scorer.model.training
    scorer.model.eval()
    with torch.inference_mode(False), torch.enable_grad():
        table = _words(scorer).weight.detach()
        own_LD = table[ids]
        # a GPT has no mask: the mean of all words says as little
        nothing_D = table[scorer.tokenizer.mask_id] if "mask" in scorer.tokenizer.specials else table.mean(0)
        hidden_LD = torch.where(inside[:, None], nothing_D, own_LD)
        scores = _scores(scorer, encoded, own_LD[None])[0].detach()
        number = int(scores.argmax()) if label is None else head.labels.index(label)
        slopes_LD = torch.zeros_like(own_LD)
        shares = (torch.arange(STEPS, device=ids.device) + 0.5) / STEPS
        for some in torch.split(shares, max(1, TOKENS_AT_ONCE // len(ids))):
            at_BLD = torch.lerp(hidden_LD, own_LD, some[:, None, None]).requires_grad_()
            log_odds = _log_odds(_scores(scorer, encoded, at_BLD), number, head)
            slopes_LD += torch.autograd.grad(log_odds.sum(), at_BLD)[0].sum(0) / STEPS
    scorer.model.train(training)
    by_token = ((own_LD - hidden_LD) * slopes_LD).sum(1).tolist()
    words = [share for text in (0, 1) for share in _by_word(encoded, text, texts[text], by_token)]
    return Explanation(head.labels[number], float(_log_odds(scores, number, head)), words)


def _scores(scorer: Scorer, encoded: Encoded, words_BLD: Tensor) -> Tensor:
    """The model's scores if its tokens had these vectors, for each of some sets of them."""
    same = [(encoded.ids, encoded.segments)] * len(words_BLD)
    inputs = lay_out(same, packed=False, pad_id=scorer.tokenizer.filling_id).to(words_BLD.device)
    hook = _words(scorer).register_forward_hook(lambda *_: words_BLD)
    try:
        return require_finite(scorer.model(inputs).float(), scorer.encoder.name, "scores")
    finally:
        hook.remove()


def _words(scorer: Scorer) -> Any:
    words = scorer.model.network.reader.words()
    if words is None:
        raise UsageError(f"answers of {scorer.encoder.name} explained", "It has no vector for each word to begin with.")
    return words


def _log_odds(scores: Tensor, number: int, head: Head) -> Tensor:
    if head.problem_type == "multi_label_classification":
        return scores[..., number]
    return scores[..., number] - torch.cat([scores[..., :number], scores[..., number + 1 :]], -1).logsumexp(-1)


def _by_word(encoded: Encoded, number: int, text: str, by_token: list[float]) -> list[Share]:
    places = [place for place, its in enumerate(encoded.texts) if its == number]
    offsets, words = [encoded.offsets[place] for place in places], [encoded.words[place] for place in places]
    found = []
    for first, end, pieces in word_spans(text, offsets, words, "tokenizer"):
        start = end - len(text[first:end].lstrip()) if text[first:end].strip() else first  # a GPT's words have a space
        found.append(Share(text[start:end], number, start, end, sum(by_token[places[piece]] for piece in pieces)))
    return found
