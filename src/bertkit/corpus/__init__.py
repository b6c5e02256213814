"""Text on disk, read as a stream."""
