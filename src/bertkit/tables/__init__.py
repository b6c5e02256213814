"""Labelled data as people keep it, by contract: the extension says the kind, the header the columns, and what cannot be
known is asked for in one message."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "bad_rows": "BadRows",
        "columns": "find_columns",
        "formats": "KINDS kind_of",
        "reading": "Reading",
        "split": "in_both",
        "table": "Row Table",
        "values": "TextExample in_order label_of number_of text_of",
    },
)
