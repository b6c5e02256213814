"""Text for pretraining: read (`reading/`), made into shards (`preparing.py`), and read back as samples (`cuts.py`).

In between lies the prepared corpus: `folder.py` and `shards.py`.
"""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "choosing": "choose",
        "cleaning": "Cleaning clean",
        "cuts": "Pairs Sequences Stream read_backwards",
        "digest": "DigestSettings DocumentEncoder SHINGLE agreement line_hash signatures slices text_hash",
        "folder": "CorpusFolder",
        "keyed": "Choice Lanes Order below bits heads key pick uniform",
        "parts": "Documents KEPT REASONS open_part",
        "preparing": "Progress Recipe prepare",
        "reading.readers": "cut_blocks read_texts",
        "reading.records": "Problem ReadOptions Record decoded records",
        "reading.sources": "NotText Source find_sources",
        "reading.tables": "Cells",
        "resume": "claim",
        "samples": "BLOCK Plan Sample Span follow framed",
        "shards": "Shard open_shard write_shard",
    },
)
