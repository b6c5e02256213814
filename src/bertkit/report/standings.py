"""What a comparison's numbers say: means and spreads, and whether a difference is more than chance.

Two contestants differ beyond the spread if their means lie farther apart than the standard deviations of both together:
then most seeds of one are better than most of the other's. With one seed there is no spread, and nothing is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bertkit.families import PRESETS, family_of_size
from bertkit.report.curves import short_count

NOT_THERE = "–"
BETTER, WORSE = "▲", "▼"
GENERATOR, NEXT = "by its generator", "every next token"


@dataclass(frozen=True)
class Standing:
    mean: float
    deviation: float | None
    """None with one seed."""
    difference: float | None = None
    """To the first contestant; None for itself."""
    beyond: bool | None = None
    """Whether that is beyond the spread; None if there is no spread."""

    def shown(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.4f}"
        mark = "" if not self.beyond else f" {BETTER if (self.difference or 0) > 0 else WORSE}"
        return f"{self.mean:.4f}{spread}{mark}"


def standing(scores: Sequence[float], first: Sequence[float] | None) -> Standing | None:
    """
    >>> standing([0.8, 0.82], [0.7, 0.71]).beyond
    True
    >>> standing([0.7, 0.82], [0.7, 0.71]).beyond
    False
    """
    if not scores:
        return None
    mean, deviation = statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None
    if not first:
        return Standing(mean, deviation)
    difference = mean - statistics.fmean(first)
    if deviation is None or len(first) < 2:
        return Standing(mean, deviation, difference)
    return Standing(mean, deviation, difference, abs(difference) > deviation + statistics.stdev(first))


def scores_of(row: Mapping[str, Any], task: str) -> list[float]:
    found: list[float] = row.get("scores", {}).get(task, {}).get("scores", [])
    return found


def standings(facts: Mapping[str, Any], task: str) -> list[tuple[Mapping[str, Any], Standing | None]]:
    """For each row how it stands in a task; the first contestant is the measure."""
    rows = facts["contestants"]
    first = scores_of(rows[0], task)
    return [(row, standing(scores_of(row, task), first if number else None)) for number, row in enumerate(rows)]


def bits_per_byte(row: Mapping[str, Any]) -> tuple[float, str] | None:
    """What it costs to say the held-out text, and what of it was asked for."""
    words = row.get("pretraining", {}).get("held_out")
    return (words["bits_per_byte"], words["asked_for"]) if words else None


def length_of_held_out(row: Mapping[str, Any]) -> int | None:
    """Tokens of the sequences in which that was measured, if it was."""
    length: int | None = row.get("pretraining", {}).get("held_out", {}).get("length")
    return length


def _lengths(facts: Mapping[str, Any]) -> list[int]:
    """Of all contestants, each once; the first is what the others are marked by."""
    found = [length for row in facts["contestants"] if (length := length_of_held_out(row)) is not None]
    return list(dict.fromkeys(found))


def head_of(facts: Mapping[str, Any]) -> list[str]:
    tasks = [f"{task['name']} ({task['metric'].replace('_', ' ')})" for task in facts["tasks"]]
    return ["", "parameters", "tokens/s", "memory", "steps", "tokens seen", "bits per byte", *tasks]


def cells_of(facts: Mapping[str, Any]) -> list[list[str]]:
    """The table: a row for each contestant."""
    by_task = {task["name"]: standings(facts, task["name"]) for task in facts["tasks"]}
    rows = []
    for number, row in enumerate(facts["contestants"]):
        ranks = [by_task[task["name"]][number][1] for task in facts["tasks"]]
        scores = [rank.shown() if rank else NOT_THERE for rank in ranks]
        rows.append([row["title"], *_of_pretraining(row, _lengths(facts)[1:]), *scores])
    return rows


def _of_pretraining(row: Mapping[str, Any], other_lengths: Sequence[int]) -> list[str]:
    if "problem" in row:
        return ["failed", *[NOT_THERE] * 5]
    if row["random"] or "pretraining" not in row:
        return [NOT_THERE] * 6
    its = row["pretraining"]
    bits, length_mark = bits_per_byte(row), " ³" if length_of_held_out(row) in other_lengths else ""
    return [
        short_count(its["parameters"]),
        f"{its['tokens_per_second']:,.0f}",
        f"{its['peak_memory'] / 2**20:,.0f} MB",
        f"{its['steps']:,} x {its['batch']}",
        short_count(its["tokens"]),
        NOT_THERE if bits is None else f"{bits[0]:.3f}{_mark(bits[1])}{length_mark}",
    ]


def _mark(asked_for: str) -> str:
    return " ¹" if GENERATOR in asked_for else " ²" if asked_for == NEXT else ""


def remarks(facts: Mapping[str, Any]) -> list[str]:
    """What a reader must know not to be misled: only what concerns these contestants."""
    said = _about_bits(facts)
    corpora, rows = facts["corpora"], facts["contestants"]
    asked = facts["asked"]
    if len({row["corpus"] for row in rows}) > 1:
        sizes = ", ".join(f"{its['bytes_per_token']:.2f} for {name}" for name, its in corpora.items())
        said.append(
            f"A token is not the same thing for all: it stands for so many bytes of the held-out text: {sizes}. Tokens"
            " per second, tokens seen and losses per token do not compare between them; time, bits per byte and the"
            " tasks do."
        )
    pretrained = [row["pretraining"] for row in rows if "pretraining" in row]
    if asked["steps"] is not None and len(pretrained) > 1:
        times = sorted(its["seconds"] for its in pretrained)
        said.append(
            f"All took {asked['steps']:,} steps, not the same time: {times[0]:,.0f} to {times[-1]:,.0f} seconds."
        )
    if asked["hours"] is not None:
        said.append(f"All had {60 * asked['hours']:g} minutes, and took as many steps as they could in them.")
    of_families = (family_of_size(row["model"]).compared for row in rows if row["model"] in PRESETS)
    return said + list(filter(None, dict.fromkeys(of_families))) + _about_scores(facts)


def _about_bits(facts: Mapping[str, Any]) -> list[str]:
    kinds = {found[1] for row in facts["contestants"] if (found := bits_per_byte(row))}
    said = []
    if kinds:
        said.append(
            "Bits per byte: 15 % of the held-out words are hidden, whole; what it costs to say them, for each byte of"
            " them. Less is better. It tells of the guessing of words, which is not what fine-tuning asks for."
        )
    if any(GENERATOR in kind for kind in kinds):
        said.append("¹ Of the generator, which is smaller than the discriminator that is fine-tuned: not comparable.")
    if NEXT in kinds:
        said.append(
            "² Of every token of the same text, from those before it, not of hidden words: another measure; compare"
            " only with others of this mark."
        )
    if len(lengths := _lengths(facts)) > 1:
        others = " or ".join(map(str, lengths[1:]))
        said.append(
            f"³ Measured in sequences of {others} tokens, the others in such of {lengths[0]}: a longer text tells more"
            " of the words hidden in it, so compare only where the length is the same."
        )
    return said


def _about_scores(facts: Mapping[str, Any]) -> list[str]:
    if not facts["tasks"]:
        return []
    first = facts["contestants"][0]
    if facts["seeds"] == 1:
        said = ["One seed: no spread is known, so a difference may be chance: three or more tell."]
    else:
        whole = (
            f"Scores are means over {facts['seeds']} seeds ± their standard deviation, after the last epoch."
            f" {BETTER} and {WORSE}: better or worse than {first['title']} by more than both deviations together;"
            " without a mark the difference may be chance."
        )
        said = [whole]
    for task in facts["tasks"]:
        if its := first.get("scores", {}).get(task["name"]):
            low, high = its["interval"]
            said.append(
                f"{task['name']} is measured on {task['examples']['dev']:,} examples: which ones they are makes"
                f" ± {(high - low) / 2:.3f} (95 %), whatever the seeds."
            )
    return said


def results(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record for each contestant, for programs."""
    records = []
    for number, row in enumerate(facts["contestants"]):
        record = {name: row[name] for name in ("name", "title", "random", "problem", "failed_tasks") if name in row}
        its = row.get("pretraining", {})
        record |= {
            name: its[name] for name in ("parameters", "tokens_per_second", "peak_memory", "tokens") if name in its
        }
        if bits := bits_per_byte(row):
            record |= {"bits_per_byte": bits[0], "asked_for": bits[1]}
        if length := length_of_held_out(row):
            record["held_out_length"] = length
        for task in facts["tasks"]:
            if (its_standing := standings(facts, task["name"])[number][1]) is not None:
                record[task["name"]] = {"metric": task["metric"], **asdict(its_standing)}
        records.append(record)
    return records
