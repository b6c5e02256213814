"""The networks. Nothing here knows of files, texts or training.

Shapes are written with these letters: B sequences in the batch, L tokens in a sequence, D hidden_size,
H heads, K head_size (D / H), F intermediate_size, V vocab_size, N layers.
"""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "bert": "Bert",
        "cache": "Cache",
        "config": "Config Heads TransformerConfig",
        "context": "Context",
        "crf": "Crf NO_TAG",
        "encoder": "additive_mask",
        "few_rows": "FewRowsLinear MOST_ROWS copied_bytes lay_out_for_few_rows",
        "fine_tuned": "FineTuned HeadShape LayerMix needs_pooler",
        "heads": "Pooler",
        "inputs": "counted in_a_row lay_out",
        "layers": "Dropout",
        "network": "Network",
        "packing": "Padded grouped",
        "protocols": "ComparesTexts HasSpeaker Reader ReadsEitherWay SaysWords TellsReplaced WritesFrom",
        "recurrent": "LEFT RIGHT CharacterCnn ClippedLstm Lstm Rows through",
        "seq2seq": "Seq2Seq",
        "vocabulary": "Fitted fit_vocabulary",
        "writing": "Mask Writing begin prefix_layout told",
    },
)
