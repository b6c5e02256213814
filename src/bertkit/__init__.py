"""bertkit: BERT as a complete, practical system.

    >>> encoder = bertkit.load_encoder("path/to/a/model/folder")
    >>> encoder.embed(["one text", "另一段文字"]).shape
    (2, 768)

The names below load on first use, so that `import bertkit` (and `bertkit --help`) does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bertkit.config import BertConfig as BertConfig
    from bertkit.corpus.folder import CorpusFolder as CorpusFolder
    from bertkit.errors import BertkitError as BertkitError
    from bertkit.inference.encoder import TextEncoder as TextEncoder
    from bertkit.inference.encoder import load_encoder as load_encoder
    from bertkit.inference.predictor import load as load
    from bertkit.model.bert import Bert as Bert
    from bertkit.text.tokenizer import Tokenizer as Tokenizer

_HOMES = {
    "Bert": "bertkit.model.bert",
    "BertConfig": "bertkit.config",
    "BertkitError": "bertkit.errors",
    "CorpusFolder": "bertkit.corpus.folder",
    "TextEncoder": "bertkit.inference.encoder",
    "Tokenizer": "bertkit.text.tokenizer",
    "load": "bertkit.inference.predictor",
    "load_encoder": "bertkit.inference.encoder",
}

__all__ = [
    "Bert",
    "BertConfig",
    "BertkitError",
    "CorpusFolder",
    "TextEncoder",
    "Tokenizer",
    "__version__",
    "load",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertkit' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
