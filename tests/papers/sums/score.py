"""Reads a sum."""

from wm.models.serving import replies


def read(text):
  answer = replies.after_answer(text).value
  return int(answer) if answer and answer.isdecimal() else None
