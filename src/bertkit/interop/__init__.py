"""Exchange with the Hugging Face world: names, folders, the hub. One reversible table per family."""
