"""Word vectors: counted, learned, asked. The engine of train/ has no part in it: its kernels are faster than gradients
of a network would be, and its state is two tables."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "asked": "answer vectors_of",
        "bring": "export_words import_words never_found",
        "counts": "Pairs words_of",
        "drawing": "chances_to_stay hashed huffman ngrams_of parts_of table_to_draw",
        "folder": "Opened save_words",
        "formats": "read_vectors write_vectors",
        "glove": "SHUFFLED deal_out learn_pairs",
        "kernels": "How SIGMOID Tables learn",
        "ngrams": "Interpolated",
        "nnlm": "NextWord examples",
        "picture": "places_of words_to_draw",
        "questions": "evaluate",
        "schemas": "LEARNED TrainingWords",
        "shrink": "shrink_words",
        "splitting": "Counted END FIRST Pieces UNKNOWN cutter tokenizer_of",
        "stream": "Reading Stream open_stream read_stream",
        "train": "Saying train_words",
        "vectors": "Near WordVectors load_words",
        "windows": "tables_for",
    },
)
