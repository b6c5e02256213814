"""A model in use: vectors, masked words, attention. Model folder in, answers out."""
