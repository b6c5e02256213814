"""Labelled data as people keep it: tables, JSON lines, CoNLL columns, SQuAD files."""
