"""What a run looks like: curves, and a page that tells all about it."""
