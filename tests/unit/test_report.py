"""Pictures and the page show what is in the log, at any state of a run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image

from bertkit.errors import InputError, WriteError
from bertkit.report import (
    COLOURS,
    History,
    draw_curves,
    element,
    short_count,
    svg_panels,
    table_of,
    write_report,
)
from bertkit.train import Journal, duration
from runs import make_run

STATES = {
    "nothing logged": {"steps": 0},
    "one record": {"steps": 10, "validate": 0},
    "no validation yet": {"steps": 100, "validate": 0},
    "without next sentences": {"nsp": False},
    "interrupted": {"resumed": 3, "skipped": 5},
    "gone back": {"rollback": True},
    "a spike": {"spike": True, "skipped": 400},
    "many records": {"steps": 3000, "every": 1},
}


class Page(HTMLParser):
    """The text of a page by element, and the names of its tags and attributes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        if self.lasttag != "style":
            self.texts.append(data)


def share_of(picture: Path, colour: str) -> float:
    """How much of a picture has this colour, nearly."""
    wanted = np.array([int(COLOURS[colour][at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return float((np.abs(image.imread(picture)[..., :3] - wanted) < 0.06).all(axis=-1).mean())


@pytest.fixture(scope="module")
def eventful(tmp_path_factory) -> Path:
    """A run with everything in it, and its report."""
    run = make_run(tmp_path_factory.mktemp("runs") / "run", skipped=7, rollback=True, resumed=1)
    write_report(run)
    return run


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_a_run_can_be_reported(tmp_path, state):
    run = make_run(tmp_path / "run", **STATES[state])
    write_report(run)
    page = Page(run / "report.html")
    assert page.tags.count("svg") == 6
    picture = image.imread(run / "curves.png")
    assert picture.shape[:2] == (1200, 1320)
    if state == "nothing logged":
        assert "nothing yet" in page.text
        assert share_of(run / "curves.png", "blue") == 0
    else:
        assert share_of(run / "curves.png", "blue") > 0.0002
    assert ("next sentence" in page.text) == (state not in ("nothing logged", "without next sentences"))
    assert ("validation" in page.text) == (state not in ("nothing logged", "one record", "no validation yet"))


def test_events_are_marked_in_the_curves(eventful, tmp_path):
    draw_curves(make_run(tmp_path / "quiet"), tmp_path / "quiet.png")
    assert share_of(tmp_path / "quiet.png", "red") == 0
    assert share_of(eventful / "curves.png", "red") > 0
    panel = dict(svg_panels(History(eventful)))["Loss of masked words against tokens seen"]
    labels = re.findall(r">([^<>]+)</text>", panel)
    assert {"training", "validation", "resumed", "skipped, 7 times", "rollback"} <= set(labels)


def test_one_spike_does_not_flatten_the_curve(tmp_path):
    panel = svg_panels(History(make_run(tmp_path / "run", spike=True)))[0][1]
    ticks = [float(text) for text in re.findall(r">([\d.]+)</text>", panel)]
    assert max(ticks) < 20


def test_a_long_run_makes_no_larger_page(tmp_path):
    short, long = (
        svg_panels(History(make_run(tmp_path / str(steps), steps=steps, every=1, validate=5))) for steps in (1000, 8000)
    )
    for (name, few), (_, many) in zip(short, long, strict=True):
        assert len(many) < 1.3 * len(few), name


def test_the_same_folder_gives_the_same_report_whatever_style_matplotlib_has(eventful):
    before = dict(mpl.rcParams)
    first = (eventful / "report.html").read_bytes(), (eventful / "curves.png").read_bytes()
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "figure.dpi": 50}):
        write_report(eventful)
    assert first == ((eventful / "report.html").read_bytes(), (eventful / "curves.png").read_bytes())
    assert dict(mpl.rcParams) == before


def test_steps_between_two_logged_ones_have_their_place(tmp_path):
    with Journal(tmp_path) as journal:
        for step in (100, 200):
            journal.write({"kind": "step", "step": step, "tokens": step * 1000})
            journal.time({"step": step, "seconds": step * 0.1})
        journal.time({"step": 900, "seconds": 90.0})  # of a stretch that was gone back over
    history = History(tmp_path)
    assert history.tokens_at(np.array([50.0, 150.0, 200.0])).tolist() == [50_000, 150_000, 200_000]
    assert history.seconds_at(np.array([150.0])).tolist() == [15.0]
    assert history.seconds == 20.0


def test_events_are_told_in_the_order_in_which_they_happened(tmp_path):
    with Journal(tmp_path) as journal:
        journal.write({"kind": "event", "step": 300, "event": "rollback", "to": 100, "message": ""})
        journal.write({"kind": "event", "step": 150, "event": "skipped", "message": ""})
        for step, event in ((120, "stopped"), (310, "resumed")):
            journal.time({"event": event, "step": step, "seconds": 1.0, "message": ""})
    assert [event["event"] for event in History(tmp_path).events] == ["stopped", "rollback", "skipped", "resumed"]


def test_the_page_has_the_headline_figures_and_the_settings(eventful):
    text = Page(eventful / "report.html").text
    for part in (
        "pretrain · step 2,000 steps",
        "tokens seen 7.9M",
        "training time 15 min 59 s",
        "validation loss 2.868",
        "masked words right 39.4 %",
        "next sentences right 75.9 %",
        "vocab size 30,522",
        "seed 1234567",
        "whole words yes",
        "lengths 128, 512",
        "length 128, steps 1,800",
        "precision float32",
        "torch 2.13.0",
        "bertkit pretrain shards -o run --note 'it'\"'\"'s here'",
        "steps 500 to 506 Skipped, 7 times",
        "step 1,000 Went back to step 660 three losses in a row were not finite",
        "step 1,000 Resumed from step-00001000",
    ):
        assert part in text, part


def test_guesses_are_shown_from_the_first_to_the_last_with_the_right_ones_marked(eventful):
    html = (eventful / "report.html").read_text(encoding="utf-8")
    text = Page(eventful / "report.html").text
    steps = [f"step {step:,}" for step in (200, 600, 1000, 1600, 2000)]
    assert f"hidden {' '.join(steps)} capital" in text
    assert "the <mark>capital</mark> of france is paris ." in html
    assert "学 <mark>习</mark> 自" in html
    first, *_, last = re.findall(r'<td data-step="step [^"]*">(.*?)</td>', html.split("<mark>capital</mark>")[1])[:5]
    assert 'class="right"' not in first
    assert '<li class="right"><bdi>capital</bdi>' in last


def test_a_sentence_that_appears_later_has_a_dash_before(tmp_path):
    run = make_run(tmp_path / "run", validate=0)
    sentence = {"text": "an [MASK] one", "masks": [{"answer": "old", "guesses": [["old", 0.9]]}]}
    with Journal(run) as journal:
        journal.write({"kind": "guesses", "step": 2001, "sentences": []})
        journal.write({"kind": "guesses", "step": 2002, "sentences": [sentence]})
    write_report(run)
    assert "old step 2,001" not in Page(run / "report.html").text
    assert "step 2,001 step 2,002 old – old 90 %" in Page(run / "report.html").text


def test_a_last_validation_that_is_not_the_best_says_so(tmp_path):
    run = make_run(tmp_path / "run")
    with Journal(run) as journal:
        journal.write({"kind": "step", "step": 2001, "mlm_loss": 3.4, "tokens": 7_903_950})
        journal.write({"kind": "validation", "step": 2001, "mlm_loss": 3.5})
    write_report(run)
    assert "step 2,001, planned 2,000" in Page(run / "report.html").text
    assert "validation loss 3.500 best 2.868 at step 2,000" in Page(run / "report.html").text


def test_whatever_the_texts_are_the_page_has_no_script_and_loads_nothing(tmp_path):
    evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"' {{BODY}} \x00 \ud800"
    run = make_run(
        tmp_path / "<b>run & co",
        sentences=[(f"[MASK] {evil}", [evil], [evil + "!"])],
        settings={evil: evil, "nested": {evil: [evil, {"deep": [evil]}]}},
    )
    with Journal(run) as journal:
        journal.write({"kind": "event", "step": 1, "event": evil, "message": evil})
    write_report(run)
    page = Page(run / "report.html")
    assert not {"script", "img", "iframe", "link", "object", "b"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcdoc", "action")]
    links = [value for name, value in page.attributes if name.endswith("href")]
    assert links
    assert all(str(value).startswith("#") for value in links)
    assert page.text.count("<script>alert(1)</script>") >= 8


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(InputError, match=r"run\.json does not exist"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="not a run folder"):
        draw_curves(tmp_path / "nowhere", tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path):
    run = make_run(tmp_path / "run", steps=100)
    write_report(run)
    old = (run / "curves.png").read_bytes()
    with Journal(run) as journal:
        journal.write({"kind": "step", "step": 101, "mlm_loss": 1.0, "tokens": 10**6})
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    with pytest.raises(WriteError, match=r"report\.html"):
        write_report(run)
    (run / "report.html").rmdir()
    write_report(run)
    assert (run / "curves.png").read_bytes() != old
    assert sorted(path.suffix for path in run.iterdir()) == [".html", ".json", ".jsonl", ".jsonl", ".png"]


def test_json_of_any_shape_becomes_a_table():
    value = {"a_b": None, "c": [], "d": {}, "e": [[1, 2], {"f": {"g": 1}}], "h": False, "i": 1e-6, "seed": 12345}
    text = re.sub(r"<[^>]+>", " ", table_of(json.loads(json.dumps(value))))
    assert text.split() == "a b – c none d – e 1, 2 f g 1 h no i 1e-06 seed 12345".split()


def test_elements_escape_what_is_put_into_them():
    assert element("td", "a < b", element("b", "&"), title='"x"', class_="c") == (
        '<td title="&quot;x&quot;" class="c">a &lt; b<b>&amp;</b></td>'
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0.4 s"), (59.4, "59.4 s"), (95, "1 min 35 s"), (7260, "2 h 1 min"), (360_000, "100 h 0 min")],
)
def test_durations_are_for_people(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(0, "0"), (999, "999"), (1200, "1.2k"), (3.5e6, "3.5M"), (2e9, "2B")])
def test_counts_are_short(count, words):
    assert short_count(count) == words


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [("times", b'"step"', b'"rtep"'), ("log", b'"masks"', b'"mbsks"'), ("log", b'"answer"', b'"\\u0000nswer"')],
)
def test_a_record_that_is_none_is_a_sentence(tmp_path, file, right, wrong):
    make_run(tmp_path / "run", steps=200)
    path = tmp_path / "run" / f"{file}.jsonl"
    content = path.read_bytes()
    assert right in content
    path.write_bytes(content.replace(right, wrong))
    with pytest.raises(InputError, match=rf"{file}\.jsonl.*(is no record|is damaged)"):
        write_report(tmp_path / "run")
