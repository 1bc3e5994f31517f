"""Reads a sum."""

from wm.models.serving import structures


def read(text):
  return structures.number(text, 'sum').value
