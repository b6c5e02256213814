"""What a model learns from: each file says which places of samples it asks about, and what loss the answers come to."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "bilm": "word_term",
        "data": "PretrainingData make_batch",
        "masking": "Masked Masking Vocabulary mask shares_of",
        "objective": "FIRST Asked Batch Chosen Cut Memory Objective Part Together objective_called objectives_known "
        "register",
        "pairs": "NextSentence SentenceOrder answered",
        "rtd": "WEIGHT ReplacedTokens",
        "terms": "Term accuracy_of averages loss_of perplexity",
        "word_loss": "PLACES_AT_ONCE masked_word_term masked_words_with_guesses sampled",
        "words": "MaskedWords NextWords next_word_term",
    },
)
