"""Question answering: windows that lose nothing, answers that are found again to the letter, a model that learns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import InputError, UsageError
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Answer, Qa, QaExample, batch_of, best_spans, facts_of, task_called, task_from
from bertkit.text import Tokenizer
from bertkit.train import FitSettings
from bertkit.train.fit import fit
from fitting import answer_of, begun, term_of

PASSAGE = "The Normans came from Denmark, Iceland and Norway. In 911 Rollo swore fealty to King Charles III."
PIECES = (
    "class|statement |  |我们|语言处理|🙂|👩\u200d💻|❤\ufe0f|cafe\u0301|é|\r\n|\u200b|.|x\u0302y\u0302|İ|ﬁn|"
    "unquestionably|\ud83d|नि|한국|\t|，"
).split("|")
ODD_TEXT = st.lists(st.sampled_from(PIECES), min_size=1, max_size=40).map("".join)


def test_a_question_may_be_a_pair_or_a_dictionary() -> None:
    expected = QaExample("input 1", "", "Why?", PASSAGE)
    assert Qa.read(("Why?", PASSAGE), "input 1") == expected
    assert Qa.read({"question": "Why?", "context": PASSAGE}, "input 1") == expected
    assert Qa.read({"query": "Why?", "passage": PASSAGE, "id": 7}, "input 1") == expected._replace(id="7")
    for value, message in [
        ("Why?", "input 1 is 'Why\\?'"),
        (("", PASSAGE), "input 1: the question is empty"),
        ({"question": "Why?"}, "input 1: there is no context"),
    ]:
        with pytest.raises(InputError, match=message):
            Qa.read(value, "input 1")


def asked(context: str, text: str = "what is it?", answers: tuple[Answer, ...] | None = None) -> QaExample:
    return QaExample("a place", "q", text, context, answers)


@given(st.integers(0, 400), st.integers(8, 60), st.integers(0, 80))
@settings(max_examples=60, deadline=None)
def test_windows_lose_no_token_and_share_the_stride(tokenizer: Tokenizer, words: int, length: int, stride: int) -> None:
    context = " ".join(f"{number} class" for number in range(words)) or "."
    task = Qa(max_length=length, stride=stride)
    [features] = task.encode([asked(context, "is it?")], tokenizer)
    whole = tokenizer.backend.encode(context, add_special_tokens=False).ids
    reached = 0
    for number, each in enumerate(features):
        about = each.about
        assert len(each.ids) == len(each.segments) <= length
        assert each.ids[about.before : -1] == whole[about.start : about.stop]
        assert each.segments == [0] * about.before + [1] * (len(each.ids) - about.before)
        if number:
            room = length - 3 - (about.before - 2)
            assert reached - about.start >= min(stride, room // 4 * 2)
        reached = about.stop
    assert (features[0].about.start, reached) == (0, len(whole))


def perfect_scores(features, first: int, last: int, *, null: float = 0.0) -> list[torch.Tensor]:
    """What a model says that knows the answer: tokens `first` to `last` of the passage."""
    scores = []
    for each in features:
        scores_L2 = torch.full((len(each.ids), 2), -5.0)
        scores_L2[0] = null / 2
        for column, token in enumerate((first, last)):
            if each.about.start <= token < each.about.stop:
                scores_L2[each.about.before + token - each.about.start, column] = 5.0
        scores.append(scores_L2)
    return scores


@given(ODD_TEXT, st.data(), st.integers(12, 40))
@settings(max_examples=200, deadline=None)
def test_answers_are_the_characters_of_the_passage(tokenizer: Tokenizer, context: str, data, length: int) -> None:
    task = Qa(max_length=length, stride=8, max_answer=4)
    [features] = task.encode([asked(context)], tokenizer)
    spans = features[0].about.spans
    if not len(spans):
        assert answer_of(task, asked(context), features, [torch.zeros(len(features[0].ids), 2)])["answer"] == ""
        return
    first = data.draw(st.integers(0, len(spans) - 1))
    last = data.draw(st.integers(first, min(first + 1, len(spans) - 1)))
    answer = answer_of(task, asked(context), features, perfect_scores(features, first, last))
    start, end = answer["start"], answer["end"]
    assert answer["answer"] == context[start:end]
    assert start == spans[first, 0]
    after = [int(spans[last + 1, 0])] if last + 1 < len(spans) else [len(context)]
    assert spans[last, 1] <= end <= max(after[0], int(spans[last, 1]))
    beyond = context[int(spans[last, 1]) : end]
    assert all(character in "\u0301\u0302\ufe0f\u093f" for character in beyond), "only accents belong to it too"
    labelled = asked(context, answers=(Answer(context[start:end], start),))
    [again] = task.encode([labelled], tokenizer)
    for each in again:
        inside = each.about.start <= first and last < each.about.stop
        before = each.about.before - each.about.start
        assert each.about.target == ((first + before, last + before) if inside else (0, 0))


@pytest.mark.parametrize("text", ["cafe\u0301", "🙂", "语言", "class  statement", "class\r\nstatement", "“é”"])
def test_an_answer_comes_back_to_the_letter(tokenizer: Tokenizer, text: str) -> None:
    context = f"We  saw 👩\u200d💻 and {text} there, 我们。"
    task = Qa()
    example = asked(context, answers=(Answer(text, context.index(text)),))
    [features] = task.encode([example], tokenizer)
    first, last = (place - features[0].about.before for place in features[0].about.target)
    answer = answer_of(task, example, features, perfect_scores(features, first, last))
    assert answer["answer"] == text
    assert task.metrics([example], [answer]) == {"exact_match": 1, "f1": 1}
    assert json.loads(json.dumps(answer)) == answer


def test_an_answer_inside_a_token_takes_the_whole_token(tokenizer: Tokenizer) -> None:
    [[features]] = Qa().encode([asked("the class there", answers=(Answer("las", 5),))], tokenizer)
    spans, before = features.about.spans, features.about.before
    first, last = (place - before for place in features.about.target)
    assert spans[first, 0] <= 5 < spans[first, 1]
    assert spans[last, 0] < 8 <= spans[last, 1]


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_the_best_pair_is_the_best_of_all_pairs(count: int, longest: int, seed: int) -> None:
    scores = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed)).double()
    pairs = {
        (first, last): float(scores[first, 0] + scores[last, 1])
        for first in range(count)
        for last in range(first, min(first + longest, count))
    }
    found = list(best_spans(scores, longest))
    best = sorted(pairs.values(), reverse=True)[: len(found)]
    assert [score for score, _, _ in found] == best
    assert all(pairs[first, last] == score for score, first, last in found)
    assert len(found) == min(20, len(pairs))


@pytest.mark.parametrize(("null", "threshold", "silent"), [(9.0, 0.0, False), (11.0, 0.0, True), (11.0, 2.0, False)])
def test_no_answer_is_said_when_it_wins_by_more_than_the_threshold(tokenizer, null, threshold, silent) -> None:
    example = asked("the class and the statement", answers=())
    for no_answer in (True, False):
        task = Qa(no_answer=no_answer, threshold=threshold)
        [features] = task.encode([example], tokenizer)
        answer = answer_of(task, example, features, perfect_scores(features, 1, 1, null=null))
        assert (answer["answer"] == "") == (silent and no_answer)
        assert answer["no_answer_score"] == null
        assert answer["best"][0]["score"] == 10.0
        if silent and no_answer:
            assert (answer["start"], answer["end"], answer["score"]) == (None, None, null)
            assert 0.5 < answer["probability"] < 1


def test_every_window_must_say_that_there_is_no_answer(tokenizer: Tokenizer) -> None:
    example = asked("class " * 60)
    task = Qa(no_answer=True, max_length=32, stride=8)
    [features] = task.encode([example], tokenizer)
    scores = perfect_scores(features, 0, 0, null=20.0)
    assert answer_of(task, example, features, scores)["answer"] == ""
    scores[0][0] = -5.0
    assert answer_of(task, example, features, scores)["answer"] == "class"


def with_answer(words: int, place: str, more: int = 30) -> QaExample:
    """Of a passage whose first words are the answer."""
    answer = " ".join(["class"] * words)
    return QaExample(place, place, "what is it?", f"{answer} {'statement ' * more}", (Answer(answer, 0),))


def test_answers_may_be_as_long_as_nearly_all_in_training(tokenizer: Tokenizer) -> None:
    task = Qa(max_length=128)
    short, long = ([with_answer(words, str(n)) for n in range(200)] for words in (5, 50))
    assert task.encode(short, tokenizer, len(short)).task.max_answer == 30
    assert task.encode(long, tokenizer, len(long)).task.max_answer == 50
    few = [*short, with_answer(60, "the long one")]
    encoded = task.encode(few, tokenizer, len(few))
    assert encoded.task.max_answer == 30, "one that is very long does not let all others be"
    assert encoded.notes == [
        "1 of 201 answers are longer than 30 tokens, the most that is given as an answer; the first is in the long one"
    ]
    assert not task.encode(short, tokenizer, len(short)).notes
    without = [asked("a class"), asked("a class", answers=())]
    assert not task.encode(without, tokenizer, 2).notes


def test_answers_that_no_window_has_are_counted(tokenizer: Tokenizer) -> None:
    task = Qa(max_length=64)
    examples = [with_answer(5, "one"), with_answer(200, "two"), with_answer(300, "three")]
    [said] = task.encode(examples, tokenizer, 1).notes
    assert said.startswith("2 of 3 answers are whole in no window of 64 tokens")
    assert said.endswith("give a larger `max_length`; the first is in two")


def test_long_questions_are_never_cut_in_silence(tokenizer: Tokenizer) -> None:
    task = Qa(max_length=32)
    long = "class " * 40
    with pytest.raises(InputError, match="the question has 40 tokens, and beside a passage 21 fit"):
        task.encode([asked("the class", long, answers=())], tokenizer)
    [features] = task.encode([asked("the class", long)], tokenizer)
    assert max(len(each.ids) for each in features) <= 32
    assert not any(each.whole for each in features)
    answer = answer_of(task, asked("the class"), features, perfect_scores(features, 1, 1))
    assert (answer["answer"], answer["question_cut"]) == ("class", 19)
    [whole] = task.encode([asked("the class", "class " * 21)], tokenizer)
    assert whole[0].about.cut == 0
    assert whole[0].whole


def test_questions_without_an_answer_let_a_model_say_so() -> None:
    answered = asked("the class", answers=(Answer("class", 4),))
    task = Qa(max_length=64)
    assert task.meet([answered]).task == task
    assert task.meet([answered]).notes == []
    silent, remarks = task.meet([answered, asked("the class", answers=())])
    assert silent == Qa(max_length=64, no_answer=True)
    assert "some questions have no answer" in remarks[0]
    assert silent.meet([answered]).task == silent


def test_facts_keep_the_task_and_those_of_others_suffice() -> None:
    task = Qa(max_length=512, no_answer=True, threshold=1.5)
    assert task_from(Qa, json.loads(json.dumps(facts_of(task)))) == task
    assert [task_from(Qa, {"max_length": length}).max_length for length in (512, 384, 128)] == [384, 384, 128]
    assert task_called("qa") is Qa
    with pytest.raises(UsageError, match="windows of 4 tokens"):
        Qa(max_length=4)
    with pytest.raises(InputError, match="none of the 1 questions has an answer"):
        begun(Qa, [asked("c", answers=())])


@pytest.mark.parametrize("packed", [True, False])
def test_the_loss_is_a_softmax_over_each_window(tiny: Bert, tokenizer: Tokenizer, packed: bool) -> None:
    examples = [asked("class " * words, answers=(Answer("class", 0),)) for words in (3, 30, 7)] + [
        asked("x", answers=())
    ]
    task = Qa(max_length=24, stride=4)
    model = FineTuned(tiny, task.head.shape).eval()
    units = task.encode(examples, tokenizer).to_learn()
    batch = batch_of(task, units, packed=packed, pad_id=tokenizer.pad_id)
    term = term_of(task, model, batch)
    scores = Scorer(model, task, tokenizer).scores([each for unit in units for each in unit])
    expected = sum(
        -(each[:, column].log_softmax(0)[unit[0].about.target[column]]) / 2
        for unit, each in zip(units, scores, strict=True)
        for column in (0, 1)
    )
    assert term.count == len(units) > len(examples)
    torch.testing.assert_close(term.total, expected, rtol=1e-5, atol=1e-5)
    term.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.zero_grad()


def test_a_tiny_model_learns_a_handful_of_questions(tokenizer: Tokenizer, tiny: Bert) -> None:
    facts = {"the class": "in a  module", "the function": "在 文件 里", "the name": "at the 🙂 end"}
    examples = []
    for subject, place in facts.items():
        context = "Well. " * 12 + f"{subject} is {place} ." + " And so on." * 12
        examples.append(asked(context, f"where is {subject}?", (Answer(place, context.index(place)),)))
        examples.append(asked(context, f"what is {place}?", (Answer(subject, context.index(subject)),)))
        examples.append(asked(context, "why and when?", ()))
    task = replace(begun(Qa, examples, max_length=48), stride=24)
    torch.manual_seed(0)
    model = FineTuned(Bert(tiny.config, pooler=False, mlm=False, nsp=False), task.head.shape, dropout=0.0)
    units = task.encode(examples, tokenizer).to_learn()
    scorer = Scorer(model, task, tokenizer)
    how = FitSettings(epochs=12, batch=8, learning_rate=1e-3)
    fitted = fit(
        model,
        task,
        units,
        lambda: task.metrics(examples, scorer.answer(examples)),
        how,
        seed=0,
        pad_id=tokenizer.pad_id,
    )
    assert fitted.best.metrics["f1"] == 1
    answers = scorer.answer(examples)
    assert [answer["answer"] for answer in answers[:3]] == ["in a  module", "the class", ""]
    assert answers[0]["best"][0]["probability"] == answers[0]["probability"]
