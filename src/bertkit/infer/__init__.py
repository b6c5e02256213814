"""A model in use: vectors, masked words, attention. Model folder in, answers out."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "batching": "batches token_budget",
        "decoding": "Repetition drawn filtered fraction",
        "encoder": "TextEncoder load_encoder",
        "export": "TEXTS",
        "generation": "Generator Text end_of_text generate prompt_ids write written_after",
        "knowledge": "pairs_of score_pairs score_text scores_together",
        "layer_choice": "LayerChoice",
        "likelihood": "likelihoods",
        "prediction_files": "PredictionFile",
        "predictor": "TaskPredictor",
        "sampling": "Sampling",
        "senses": "Pair Place places_of read_pairs senses_told vectors_of",
        "scoring": "CHARACTERS_AT_ONCE Scorer portions",
        "vector_files": "vector_writer",
        "writer": "Writer",
        "written": "TextWriter",
    },
)
