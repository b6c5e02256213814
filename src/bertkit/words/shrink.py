"""A table of words, or a model for a task on top of one, in less room: fewer words, half the digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bertkit.errors import ModelFolderError, UsageError
from bertkit.families import family_called
from bertkit.hub.fine_tuned import columns_of, has_head, load_fine_tuned, save_fine_tuned
from bertkit.hub.folder import ModelFolder, require_place
from bertkit.hub.weights import load_model, save_model
from bertkit.words.folder import Opened
from bertkit.words.splitting import tokenizer_of


def shrink_words(
    source: Path, out: Path, *, most_words: int | None = None, half: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Keep the first so many words, which are the commonest; `half` keeps float16. What there is to tell of it."""
    if most_words is None and not half:
        raise UsageError("nothing is to become smaller", "Give `max_words=N`, or `half=True`, or both.")
    require_place(out, overwrite=overwrite, read=[source])
    opened, folder = Opened(source), ModelFolder(source)
    tokenizer = folder.tokenizer()
    fine_tuned = load_fine_tuned(folder) if has_head(folder) else None
    network = load_model(folder).model if fine_tuned is None else fine_tuned.model.network
    table = getattr(network, "table", None)
    if table is None or tokenizer.kind != "words":
        raise ModelFolderError(
            f"{source} holds no table with a row for each whole word", "Others cannot be made smaller so."
        )
    words = opened.words[:most_words]
    rows = table.weight.detach()[: opened.special + len(words)].clone()
    smaller = family_called("vectors").without_weights(replace(network.config, vocab_size=len(rows), ngrams=0))
    smaller.load_state_dict({"table.weight": rows.half() if half else rows}, assign=True)
    kept = {name: folder.manifest.get(name, {}) for name in ("provenance", "metrics")}
    made = tokenizer_of(words, lowercase=opened.lowercase)
    if fine_tuned is None:
        save_model(out, smaller, made, overwrite=overwrite, **kept)
    else:
        fine_tuned.model.network = smaller
        save_fine_tuned(
            out, fine_tuned.model, fine_tuned.task, made, columns=columns_of(folder), overwrite=overwrite, **kept
        )
    size = sum(file.stat().st_size for file in out.iterdir())
    return {"words": len(words), "of": len(opened.words), "half": half, "bytes": size}
