"""Questions and passages as files have them, what is refused, and how answers are scored."""

from __future__ import annotations

import gzip
import io
import json
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import InputError
from bertkit.tables import Reading
from bertkit.tasks import Answer, Qa, QaExample, agreement, best_agreement, best_threshold, examples_in
from bertkit.tasks.qa_scores import qa_scores
from fitting import begun

PASSAGE = "The Normans came from Denmark, Iceland and Norway. In 911 Rollo swore fealty to King Charles III."
WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["a", "The", "an", "AN", "the,", "U.S.", "-", "%", "42", "don't", "É", "“the”", "a_b", "ﬁ", "İ"]
        ),
        st.text(string.ascii_letters[:6] + string.punctuation + " éß–", max_size=5),
    ),
    max_size=6,
).map(" ".join)


def words_by_hand(text: str) -> list[str]:
    """SQuAD's normalisation a second time, a letter at a time: no pattern, no table."""
    words, word = [], ""
    for letter in [letter for letter in text.lower() if letter not in string.punctuation] + [" "]:
        if letter.isalnum() or letter == "_":
            word += letter
        else:
            words += [" "] if word in ("a", "an", "the") else [word]
            words.append(letter)
            word = ""
    return "".join(words).split()


@given(WORDS, WORDS)
def test_english_is_scored_by_the_published_definition(answer: str, right: str) -> None:
    given_words, wanted = words_by_hand(answer), words_by_hand(right)
    found = agreement(answer, right)
    assert found.exact == float(given_words == wanted)
    if not given_words or not wanted:
        assert found.f1 == found.exact
        return
    shared = sum((Counter(given_words) & Counter(wanted)).values())
    precision, recall = shared / len(given_words), shared / len(wanted)
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall) if shared else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("US army", "the  U.S. Army", 1, 1),
        ("in Norway", "Norway", 0, 2 / 3),
        ("cat cat dog", "cat dog dog", 0, 2 / 3),
        ("a", "The", 1, 1),
        ("the", "Norway", 0, 0),
        ("“Norway”", "Norway", 0, 0),
        ("10–11", "1011", 0, 0),
        ("10-11", "1011", 1, 1),
        ("theatre", "atre", 0, 0),
    ],
)
def test_english_is_scored_as_the_published_program_scores_it(answer, right, exact, f1) -> None:
    assert agreement(answer, right) == pytest.approx((exact, f1))


@given(st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3)), min_size=1, max_size=8))
def test_scores_are_means_of_the_best_agreement(pairs: list[tuple[str, list[str]]]) -> None:
    scores = qa_scores([right for _, right in pairs], [answer for answer, _ in pairs])
    exact = []
    for answer, right in pairs:
        counting = [text for text in right if words_by_hand(text)] or [""]
        exact.append(max(words_by_hand(answer) == words_by_hand(text) for text in counting))
    assert scores["exact_match"] == pytest.approx(sum(exact) / len(exact))
    without = [right_one for right_one, (_, right) in zip(exact, pairs, strict=True) if not right]
    assert ("accuracy_unanswerable" in scores) == bool(without)
    if without:
        assert scores["accuracy_unanswerable"] == pytest.approx(sum(without) / len(without))
        assert ("f1_answerable" in scores) == (len(without) < len(pairs))


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("北京", "北京", 1, 1),
        ("在北京", "北京", 0, 0.8),
        ("《北京》。", "北京", 1, 1),
        ("北京，上海", "北京、上海", 1, 1),
        ("1786年2月2日", "1786年 2月 2日", 1, 1),
        ("2月2日", "1786年2月2日", 0, 4 / 5),
        ("～北京～", "北京", 1, 1),
        ("Python語言", "python 語言", 1, 1),
        ("上海", "北京", 0, 0),
        ("", "北京", 0, 0),
        ("。", "", 0, 0),
    ],
)
def test_chinese_is_scored_by_characters_and_without_its_punctuation(answer, right, exact, f1) -> None:
    assert agreement(answer, right) == pytest.approx((exact, f1))


def test_saying_nothing_is_right_only_where_there_is_no_answer() -> None:
    assert best_agreement("", []) == (1, 1)
    assert best_agreement("Rollo", []) == (0, 0)
    assert best_agreement("", ["Rollo"]) == (0, 0)
    assert best_agreement("", ["The", "..."]) == (1, 1), "answers of which nothing counts are none"
    scores = qa_scores([["Rollo", "King Rollo"], []], ["King Rollo", ""])
    assert scores == {
        "exact_match": 1,
        "f1": 1,
        "exact_match_answerable": 1,
        "f1_answerable": 1,
        "accuracy_unanswerable": 1,
    }


@given(
    st.lists(
        st.tuples(st.integers(-3, 3).map(float), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])),
        min_size=1,
        max_size=12,
    )
)
def test_no_threshold_is_better_than_the_best(sides: list[tuple[float, float, float]]) -> None:
    def mean(threshold: float) -> float:
        return sum(silent if margin > threshold else said for margin, said, silent in sides) / len(sides)

    threshold, best = best_threshold(*zip(*sides, strict=True))
    assert mean(threshold) == pytest.approx(best)
    assert best == pytest.approx(max(mean(half / 2) for half in range(-9, 9)))


def test_which_threshold_would_have_been_better_is_told() -> None:
    first, none = QaExample("1", "1", "Who?", PASSAGE, (Answer("Rollo", 58),)), QaExample("2", "2", "Why?", PASSAGE, ())
    best = [{"answer": "Rollo", "score": 3.0}]
    answers = [{"answer": "", "probability": 1.0, "no_answer_score": nothing, "best": best} for nothing in (4.0, 9.0)]
    (told,) = Qa(no_answer=True).findings([first, none], answers).in_hindsight
    assert told == "with `threshold=3.5`, for evaluate and predict, F1 would be 1.0000 on these questions"
    assert Qa(no_answer=True).findings([first, none], answers, [first]).try_next == [f"W{told[1:]}."]
    assert Qa(no_answer=False).findings([first, none], answers).in_hindsight == []
    answers[0]["answer"] = "Rollo"
    assert Qa(no_answer=True, threshold=3.5).findings([first, none], answers).in_hindsight == []
    nowhere = {"answer": "", "no_answer_score": 1.0, "best": []}
    assert Qa(no_answer=True).findings([first, none], [nowhere, nowhere]).in_hindsight == []


def squad(*questions: dict, context: str = PASSAGE, **more) -> dict:
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def question(text: str | None = "Denmark", start: int = 22, number: str = "q1", **more) -> dict:
    answers = [] if text is None else [{"text": text, "answer_start": start}]
    return {"id": number, "question": "Where did they come from?", "answers": answers, **more}


def write(folder: Path, content: object, name: str = "questions.json") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def read(path: str, notes: list[str] | None = None, **reading) -> list[QaExample]:
    return list(examples_in(Qa, path, Reading(**reading), [] if notes is None else notes))


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("compressed", [False, True])
def test_squad_files_of_both_versions_are_read(tmp_path: Path, indent: int | None, compressed: bool) -> None:
    content = json.dumps(squad(question(), question(None, number="q2", is_impossible=True)), indent=indent).encode()
    path = tmp_path / ("squad.json.gz" if compressed else "squad.json")
    path.write_bytes(gzip.compress(content) if compressed else content)
    first, second = read(str(path))
    assert (first.id, first.context, first.answers) == ("q1", PASSAGE, (Answer("Denmark", 22),))
    assert second.answers == ()
    assert begun(Qa, [first, second]).no_answer
    assert not begun(Qa, [first]).no_answer
    assert read(str(path), labelled=False)[0].answers is None


def test_a_squad_file_may_come_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.dumps(squad(question(start=20))).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content))))
    notes: list[str] = []
    assert [example.answers for example in read("-", notes, file_format="json")] == [(Answer("Denmark", 22),)]
    assert "standard input: 1 answers are not where answer_start says; the nearest place that has them counts" in notes


@pytest.mark.parametrize(
    "answers",
    [
        {"answers": [{"text": "Denmark", "answer_start": 22}]},
        {"answers": {"text": ["Denmark"], "answer_start": [22]}},
        {"answers": ["Denmark"]},
        {"answer": "Denmark", "answer_start": 22},
        {"answer": "Denmark"},
    ],
)
def test_rows_may_have_answers_in_any_usual_form(tmp_path: Path, answers: dict) -> None:
    rows = [{"question": "Where from?", "context": PASSAGE, **answers}, {"question": "Why?", "context": PASSAGE}]
    none = {name: "" if name == "answer" else [] for name in answers if name != "answer_start"}
    path = write(tmp_path, "\n".join(map(json.dumps, [rows[0], {**rows[1], **none}])), "rows.jsonl")
    first, second = read(path)
    assert first.answers == (Answer("Denmark", 22),)
    assert second.answers == ()
    assert (first.id, second.id) == ("1", "2")
    unlabelled = write(tmp_path, json.dumps(rows[1]), "new.jsonl")
    assert read(unlabelled, labelled=False)[0].answers is None
    rows_in_data = write(tmp_path, {"data": [rows[0]]})
    if "answers" in answers:
        assert read(rows_in_data)[0].answers == (Answer("Denmark", 22),)


def test_tables_and_other_names_are_read_and_said(tmp_path: Path) -> None:
    table = f'query,passage,answer,answer_start\nWhere?,"{PASSAGE}",Denmark,22\nWhy?,"{PASSAGE}",,\n'
    notes: list[str] = []
    first, second = read(write(tmp_path, table, "t.csv"), notes)
    assert (first.answers, second.answers) == ((Answer("Denmark", 22),), ())
    assert "question is 'query', context is 'passage'" in notes[0]
    named = write(tmp_path, json.dumps({"q": "Where?", "c": PASSAGE, "answers": ["Rollo"]}), "named.jsonl")
    assert read(named, names={"question": "q", "context": "c"})[0].question == "Where?"


def test_answers_at_the_wrong_place_are_found_nearby_and_counted(tmp_path: Path) -> None:
    context = "day by day, day out"
    path = write(
        tmp_path, squad(question("day", 8), question("day", 13, "q2"), question(" out", 0, "q3"), context=context)
    )
    notes: list[str] = []
    examples = read(path, notes)
    assert [example.answers[0].start for example in examples] == [7, 12, 15]
    assert "3 answers are not where" in notes[-1]
    read(write(tmp_path, squad(question(is_impossible=True))), notes)
    assert "1 questions are marked is_impossible and have answers" in notes[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(question("Sweden")), "question 'q1': the answer 'Sweden' is not in its passage"),
        (squad(question(), question()), "question 'q1': this id is there twice"),
        (squad({**question(), "question": " "}), "the question is empty"),
        (squad({**question(), "question": 7}), "the question is 7, not text"),
        (squad(question(), context="\n"), "the context is empty"),
        (squad({"id": "q1", "question": "Why?"}), "there are no answers. Name their column with `label_column`"),
        (squad({**question(), "answers": [12]}), "an answer is 12"),
        (squad({**question(), "answers": 12}), "an answer is 12"),
        (squad({**question(), "answers": {"text": ["Rollo"], "answer_start": []}}), "1 texts of answers"),
        (squad(question("Rollo", start="x")), "answer_start is 'x'"),
        (squad(), "has no rows"),
        ({"data": [{"title": "t"}]}, "no column is plainly the question"),
        ('{"data": [{"paragraphs": [}', "line 1: not valid JSON"),
        ('{"data": ["\udcff"'.encode("utf-8", "surrogateescape").decode("latin-1"), "not valid JSON"),
    ],
)
def test_what_is_wrong_is_said_with_file_place_and_remedy(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as raised:
        read(path)
    assert message in str(raised.value)
    assert "questions.json" in str(raised.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"question": "Why?", "contxt": "c", "answers": []},
            "Name it with `text_column`. Did you mean 'contxt'? There are: 'question', 'contxt', 'answers'.",
        ),
        ({"question": "Why?", "context": "c"}, "there are no answers. Name their column"),
        ({"question": "Why?", "context": "c", "answers": ["d"], "id": 7}, "line 1, question '7': the answer 'd'"),
    ],
)
def test_what_is_wrong_in_rows_is_said_too(tmp_path: Path, row: dict, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read(write(tmp_path, json.dumps(row), "rows.jsonl"))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(question(), question("Sweden", number="q2")), "row 2, question 'q2': the answer"),
        (squad(question(), {"question": "", "answers": []}), "row 2: the question is empty"),
        ({"data": [{"question": "Why?", "context": 3, "answers": []}]}, "row 1: the context is 3"),
        (json.dumps(squad(question()))[:-20], "ends early: copy or download it again"),
        (json.dumps(squad(question()))[:60], "ends early: copy or download it again"),
        (json.dumps(squad(question())).replace("answers", 'ans"wers'), "Mend it there"),
    ],
)
def test_a_squad_file_is_told_where_it_is_wrong_and_what_to_do(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=r"questions\.json") as raised:
        read(write(tmp_path, content))
    assert message in str(raised.value)


def test_questions_without_answers_are_refused_with_their_file(tmp_path: Path) -> None:
    examples = read(write(tmp_path, squad(question(None))))
    with pytest.raises(InputError, match=r"questions\.json, .*: none of the 1 questions has an answer"):
        begun(Qa, examples)


def test_columns_of_questions_that_were_named_are_known_again(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"q": "Where?", "c": PASSAGE, "a": ["Rollo"]}), "rows.jsonl")
    kept: dict[str, str] = {}
    first = read(path, names={"question": "q", "text": "c", "label": "a"}, on_columns=kept.update)
    assert read(path, remembered=kept) == first
    assert read(path, remembered=kept, labelled=False)[0].question == "Where?"
    of_before = {"question": "q", "context": "c", "answers": "a"}
    assert read(path, remembered=of_before) == first


def test_a_misspelt_column_gets_the_nearest_offered(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"frage": "Why?", "context": "c", "answers": []}), "rows.jsonl")
    with pytest.raises(InputError, match=r"no column 'farge'.*Did you mean 'frage'"):
        read(path, names={"question": "farge"})


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_bytes(b'{"data": [{"title": "\xff"}]}')
    with pytest.raises(InputError, match="not UTF-8"):
        read(str(path))


def test_of_several_answers_one_inside_the_passage_suffices(tmp_path: Path):
    """As in CMRC's published dev set."""
    row = {"question": "Who?", "context": "Ann left.", "answers": {"text": ["Ann", "Anne"], "answer_start": [0, 0]}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    notes: list[str] = []
    (example,) = examples_in(Qa, str(tmp_path / "a.jsonl"), Reading(), notes)
    assert example.answers == (Answer("Ann", 0),)
    assert notes[-1].endswith("1 questions have answers that are not in their passages, besides others that are")
