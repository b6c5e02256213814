"""What a model's card, the README.md of its folder, has for people to try: the first of its samples, by the fields of
the page's forms. Cards are written by strangers, so whatever is not as it should be is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LONGEST_CARD, LONGEST_SAMPLE = 2**18, 5_000


def sample_of(folder: Path) -> dict[str, str]:
    """
    A card that begins with `widget: [{text: Who came?, context: Ann came.}]` between two lines of `---` gives
    {"question": "Who came?", "context": "Ann came."}.
    """
    from huggingface_hub.repocard import metadata_load

    file = folder / "README.md"
    try:
        if not file.is_file() or file.stat().st_size > LONGEST_CARD:
            return {}
        first = next(each for each in (metadata_load(file) or {})["widget"] if isinstance(each, dict))
    except Exception:  # whatever a stranger's card can raise
        return {}
    asks = "context" in first
    found = {
        "question" if asks else "text": first.get("text"),
        "context": first.get("context"),
        "pair": first.get("text_pair"),
        "sentences": _lines([first.get("source_sentence"), *_listed(first.get("sentences"))]),
    }
    return {name: text for name, text in found.items() if isinstance(text, str) and 0 < len(text) <= LONGEST_SAMPLE}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _lines(texts: list[Any]) -> str:
    return "\n".join(" ".join(text.split()) for text in texts if isinstance(text, str))
