"""The networks. Nothing here knows of files, texts or training.

Shapes are written with these letters: B sequences in the batch, L tokens in a sequence, D hidden_size,
H heads, K head_size (D / H), F intermediate_size, V vocab_size, N layers.
"""
