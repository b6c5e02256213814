"""The report of a run: one self-contained HTML file that tells what was trained, how, and how well.

Nothing in it says when it was made: the same run folder gives the same bytes.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import InputError
from bertkit.files import AGAIN, atomic_file, read_json
from bertkit.objectives.terms import accuracy_of
from bertkit.report.curves import draw_curves, short_count, svg_panels
from bertkit.report.elements import Markup, card, element, table_of, tile, whole_page
from bertkit.report.history import BEYOND, Floats, History
from bertkit.train.journal import duration

STEPS_SHOWN, SENTENCES_SHOWN, EVENTS_SHOWN = 5, 12, 60

EVENTS = {
    "resumed": "Resumed",
    "stopped": "Stopped",
    "skipped": "Skipped",
    "rollback": "Went back",
    "micro_batch": "Smaller micro-batches",
    "plan": "Planned",
    "diagnosis": "Diagnosis",
}

MASK = re.compile(r"\[MASK\]|<mask>")


def write_report(run: Path) -> None:
    """Write RUN/report.html, and RUN/curves.png beside it, from what is in the folder now."""
    try:
        _write_report(run)
    except (LookupError, TypeError, ValueError, AttributeError) as problem:  # of a record that is none of ours
        raise InputError(f"log.jsonl or times.jsonl of {run} is damaged: {problem!r}", AGAIN) from problem


def _write_report(run: Path) -> None:
    facts, history = read_json(run / "run.json"), History(run)
    draw_curves(history, run / "curves.png")
    name = run.resolve().name
    sections = [
        _header(name, facts, history),
        _figures(history),
        card("Curves", element("div", *_curves(history), class_="curves")),
        card("Guesses for hidden words", *_guesses(history.guesses)),
        card("What happened", _events(history.events)),
        element(
            "div",
            *(
                card(key.capitalize(), table_of(facts[key]))
                for key in ("plan", "settings", "data", "machine", "versions")
                if facts.get(key)
            ),
            class_="columns",
        ),
        card("Command", element("pre", _command(facts.get("command")))),
    ]
    with atomic_file(run / "report.html") as file:
        file.write(whole_page(f"{name} · bertkit", sections))


def _header(name: str, facts: Mapping[str, Any], history: History) -> Markup:
    planned = facts.get("plan", {}).get("steps") if isinstance(facts.get("plan"), dict) else None
    done = _last(history.steps["step"])
    state = "not begun" if done is None else f"step {done:,.0f}"
    if done is not None and isinstance(planned, int) and planned != done:
        state += f", planned {planned:,}"
    about = element("span", f"{facts.get('task', 'run')} · {state}", class_="quiet")
    return element("header", element("h1", name), about)


def _figures(history: History) -> Markup:
    """The headline figures; what a run has not got is left out."""
    steps, validations, times = history.steps, history.validations, history.times
    (_, loss), speed, share = history.losses, times["tokens_per_second"], times["share_of_peak"]
    figures: list[tuple[str, float | None, Callable[[float], str], str]] = [
        ("steps", _last(steps["step"]), "{:,.0f}".format, ""),
        ("tokens seen", _last(steps["tokens"]), short_count, ""),
        ("training time", history.seconds or None, duration, ""),
        ("validation loss", _last(loss), "{:.3f}".format, _best(history) or history.about),
        ("to the break", history.break_seconds, duration, f"{BEYOND:g} nats below word frequency"),
        ("perplexity", _last(validations["perplexity"]), "{:.4g}".format, ""),
        *(
            (f"{title} right", _last(validations[accuracy_of(term)]), "{:.1%}".format, "")
            for term, title in history.asks.items()
        ),
        ("tokens per second", _median(speed), "{:,.0f}".format, "median"),
        ("of the machine's peak", _median(share), "{:.0%}".format, "median"),
    ]
    tiles = [
        tile(name, show(value).replace("%", " %"), note) for name, value, show, note in figures if value is not None
    ]
    return element("dl", *tiles, class_="figures") if tiles else Markup()


def _best(history: History) -> str:
    """Said only where the last validation is not the best one."""
    _, loss = history.losses
    if not np.isfinite(loss).any() or np.nanargmin(loss) == len(loss) - 1:
        return ""
    at = int(np.nanargmin(loss))
    return f"best {loss[at]:.3f} at step {history.validations['step'][at]:,.0f}"


def _last(values: Floats) -> float | None:
    return float(values[-1]) if len(values) and not math.isnan(values[-1]) else None


def _median(values: Floats) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _curves(history: History) -> Iterable[Markup]:
    for name, svg in svg_panels(history):
        yield element("figure", Markup(svg), role="img", aria_label=name)


def _guesses(records: list[dict[str, Any]]) -> Iterable[Markup]:
    """For each sentence a table: a row for each hidden word, a column for a handful of steps from first to last."""
    if not records:
        return
    chosen = [records[at] for at in np.unique(np.linspace(0, len(records) - 1, STEPS_SHOWN).round().astype(int))]
    yield element("p", "Sentences kept out of training. Underlined is what was hidden from the model.", class_="quiet")
    sentences = records[-1].get("sentences", [])
    by_step = [
        (f"step {record['step']:,}", {_key(sentence): sentence["masks"] for sentence in record.get("sentences", [])})
        for record in chosen
    ]
    for sentence in sentences[:SENTENCES_SHOWN]:
        text, masks = sentence["text"], sentence["masks"]
        head = element("tr", element("th", "hidden"), *(element("th", step) for step, _ in by_step))
        rows = []
        for number, mask in enumerate(masks):
            cells = []
            for step, found in by_step:
                then = found.get(_key(sentence), [])
                guesses = then[number]["guesses"] if number < len(then) else []
                cells.append(element("td", _ranking(guesses, mask["answer"]), data_step=step))
            rows.append(element("tr", element("th", element("bdi", mask["answer"])), *cells))
        yield element("p", *_with_answers(text, [mask["answer"] for mask in masks]), class_="sentence", dir="auto")
        yield element("table", element("thead", head), element("tbody", *rows), class_="guesses")
    if len(sentences) > SENTENCES_SHOWN:
        yield element("p", f"{len(sentences) - SENTENCES_SHOWN} more are in log.jsonl.", class_="quiet")


def _key(sentence: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells sentences apart: the same one can have other words hidden."""
    return sentence["text"], *(mask["answer"] for mask in sentence["masks"])


def _ranking(guesses: Iterable[tuple[str, float]], answer: str) -> Markup:
    items = [
        element(
            "li",
            element("bdi", word),
            element("span", f"{100 * share:.0f} %" if isinstance(share, int | float) else "", class_="share"),
            **({"class_": "right"} if word == answer else {}),
        )
        for word, share in guesses
    ]
    return element("ol", *items) if items else element("span", "–", class_="quiet")


def _with_answers(text: str, answers: list[str]) -> list[object]:
    """The sentence with the hidden words in their places."""
    pieces = MASK.split(text)
    if len(pieces) != len(answers) + 1:
        return [text]
    whole: list[object] = [pieces[0]]
    for answer, piece in zip(answers, pieces[1:], strict=True):
        whole += [element("mark", answer), piece]
    return whole


def _events(events: list[dict[str, Any]]) -> Markup:
    """In order; a row of the same event is told once."""
    groups: list[list[dict[str, Any]]] = []
    for event in events:
        if groups and event["event"] == groups[-1][-1]["event"] == "skipped":
            groups[-1].append(event)
        else:
            groups.append([event])
    rows = []
    for group in groups[-EVENTS_SHOWN:]:
        first, last = group[0], group[-1]
        steps = [f"{event['step']:,}" for event in (first, last) if isinstance(event.get("step"), int)]
        where = f"steps {steps[0]} to {steps[-1]}" if len(set(steps)) > 1 else f"step {steps[0]}" if steps else ""
        what = EVENTS.get(first["event"], str(first["event"]).replace("_", " ").capitalize())
        if len(group) > 1:
            what += f", {len(group):,} times"
        if isinstance(first.get("to"), int):
            what += f" to step {first['to']:,}"
        message = str(last.get("message", ""))
        if len(group) > 1 and message:
            message = f"the last time: {message}"
        rows.append(element("tr", element("th", where), element("td", what), element("td", message)))
    left_out = len(groups) - len(rows)
    note = element("p", f"{left_out:,} earlier ones are in log.jsonl.", class_="quiet") if left_out else Markup()
    return Markup(note + element("table", *rows, class_="events")) if rows else Markup()


def _command(command: object) -> str:
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")
