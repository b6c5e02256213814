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
    from bertkit.api import compare as compare
    from bertkit.api import evaluate as evaluate
    from bertkit.api import finetune as finetune
    from bertkit.api import prepare as prepare
    from bertkit.api import pretrain as pretrain
    from bertkit.api import register as register
    from bertkit.corpus.folder import CorpusFolder as CorpusFolder
    from bertkit.errors import BertkitError as BertkitError
    from bertkit.families.bert import BertConfig as BertConfig
    from bertkit.infer.encoder import TextEncoder as TextEncoder
    from bertkit.infer.encoder import load_encoder as load_encoder
    from bertkit.infer.predictor import load as load
    from bertkit.nn.bert import Bert as Bert
    from bertkit.text.tokenizer import Tokenizer as Tokenizer
    from bertkit.words.vectors import load_words as load_words

_HOMES = {
    "Bert": "bertkit.nn.bert",
    "BertConfig": "bertkit.families.bert",
    "BertkitError": "bertkit.errors",
    "CorpusFolder": "bertkit.corpus.folder",
    "TextEncoder": "bertkit.infer.encoder",
    "Tokenizer": "bertkit.text.tokenizer",
    "compare": "bertkit.api",
    "evaluate": "bertkit.api",
    "finetune": "bertkit.api",
    "load": "bertkit.infer.predictor",
    "load_encoder": "bertkit.infer.encoder",
    "load_words": "bertkit.words.vectors",
    "prepare": "bertkit.api",
    "pretrain": "bertkit.api",
    "register": "bertkit.api",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertkit' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
