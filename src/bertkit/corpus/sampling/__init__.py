"""What training reads: samples by number, and their order. `samples.py` tells what a sample is."""
