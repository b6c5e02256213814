"""Models side by side: the same text, the same time or steps, the same tasks and seeds."""
