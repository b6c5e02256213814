"""What a model learns from: each file makes batches out of samples, and a loss out of what the model answers."""
