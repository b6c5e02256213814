"""Text to tokens: tokenizers, how they are learned, sentences, Chinese words."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "chinese": "HAN han_word_starts",
        "chunks": "ChunkTable cuts_as_bert_does",
        "extend": "Extended cut extend_vocabulary require_extendable trace",
        "kinds": "FORMS Form WORDPIECE assemble bpe frame",
        "opening": "require_bounded wordpiece",
        "quality": "measure",
        "recipe": "VocabularyRecipe",
        "sample": "Sample draw_sample parts",
        "sentences": "mark_sentences split_sentences windows",
        "tokenizer": "Tokenizer more_specials ordinary_ids without_panic",
        "train": "train_wordpiece",
    },
)
