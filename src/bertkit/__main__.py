"""`python -m bertkit` is `bertkit`."""

from bertkit.cli import main

main()
