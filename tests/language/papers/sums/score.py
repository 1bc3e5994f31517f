"""Reads a sum."""

from wm.language.answers import grammar


def read(text):
  return grammar.number(text, 'sum').value
