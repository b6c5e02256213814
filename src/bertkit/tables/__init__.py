"""Labelled data as people keep it: tables, JSON lines, CoNLL columns, SQuAD files."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "conll": "TagExample looks_like_columns",
        "dialects": "LOOK_AT find_writing",
        "headers": "looks_like_data",
        "ids": "SeenIds id_column",
        "quoting": "Quotes QuotesLeft quotes_in",
        "reading": "Reading",
        "rows": "Table",
        "schemes": "Entity entities from_entities recognise to_iob2",
        "split": "in_both",
        "squad": "Answer QaExample",
        "text_pairs": "PairExample",
        "texts": "TextExample in_order",
    },
)
