"""Answers to prompts from their text alone, as known answers to compare with.

base     what a text says of a world; the parts of a prompt
worlds   a reader for each world that is told in words
mango    walkthroughs of text games, and MANGO's questions
"""
