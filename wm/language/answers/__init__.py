"""Replies of language models, read as values.

lexicon  words and forms, from lexicon.toml
replies  plain text, its marks, JSON and tables in it
values   counts, seats, paths, objects, numbers by step, labels
grammar  yes or no, names and verdicts; the reader of a question
"""
