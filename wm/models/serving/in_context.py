"""A language model that is adapted in its prompt: labels are shown.

    the world in words
    sequences with labels          a data set of core.Sets
    sequences without              core.Asked
    "Answer:" and a list           one call a data set

Vafa et al. 2025 ask which assumptions a foundation model brings along to small
tasks; what is tuned there is told here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.language import replies
from wm.models.serving import asked, name_reader

SHOWN = 'Some sequences have labels. Each line is a sequence and its label.'
WANTED = 'These sequences have labels of the same kind.'
_NUMBERED = re.compile(r'\s*(\d{1,6})[.):]\s*(\S.*)')
_NUMBER = re.compile(r'[-+]?\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?')


def prompt(
  world: str,
  examples: Sequence[tuple[str, str]],
  wanted: Sequence[str],
  kind: core.Kind,
) -> str:
  """The prompt of a data set.

  Args:
    world: in words.
    examples: sequences in words, and their labels.
    wanted: sequences in words.
    kind: of labels.
  """
  shown = [f'{n}. {words}: {label}' for n, (words, label) in _counted(examples)]
  asked_of = [f'{n}. {words}' for n, words in _counted(wanted)]
  if isinstance(kind, core.Classes):
    classes = [str(k) for k in range(kind.k)]
    form = f'{", ".join(classes[:-1])} or {classes[-1]}'
  else:
    form = 'a number' if kind.d == 1 else f'a list of {kind.d} numbers'
  return '\n'.join(
    [
      world,
      '',
      SHOWN,
      *shown,
      '',
      WANTED,
      *asked_of,
      '',
      f'Which labels? Write a list of {len(wanted)} labels in this order, each '
      f'{form}, in square brackets after "Answer:".',
    ]
  )


def _counted(some: Sequence[Any]) -> list[tuple[int, Any]]:
  return list(enumerate(some, 1))


def read_labels(question: Query, text: str) -> Answer:
  """A list of as many labels as were asked for, or numbered lines of them.

  Failures are those of `replies`, 'wrong_length', and 'unknown_label', what is
  no class, or no finite number.

  Returns:
    value: tuple of integers, or of M * d floats.
  """
  ((num, width, classes),) = question.suffixes
  seen = replies.visible(text)
  if seen.failure:
    return Answer(None, seen.failure, text=text)
  answer = replies.after_answer(seen.value)
  words = seen.value if answer.failure else answer.value
  found = replies.first_value(words, opening='[')
  if isinstance(found.value, list) and not found.failure:
    labels = _flat(found.value)
  elif found.failure == 'nothing':
    labels = _plain(words)
    if not labels:
      return Answer(None, answer.failure or 'nothing', text=text)
  else:
    return Answer(None, found.failure or 'nothing', text=text)
  if len(labels) != num * width:
    return Answer(None, 'wrong_length', text=text)
  numbers = tuple(_label(one, classes) for one in labels)
  if None in numbers:
    return Answer(None, 'unknown_label', text=text)
  return Answer(numbers, text=text)


def _flat(values: Sequence[Any]) -> list[Any]:
  """A list of labels, or of lists of them."""
  found: list[Any] = []
  for one in values:
    found += one if isinstance(one, list) else [one]
  return found


def _plain(text: str) -> list[str]:
  """Labels without brackets: behind commas, or on lines that are numbered."""
  matches = [_NUMBERED.fullmatch(line) for line in text.splitlines()]
  numbered = [match for match in matches if match]
  if numbered and [int(one[1]) for one in numbered] == [
    *range(1, len(numbered) + 1)
  ]:
    return [one[2].rpartition(':')[2].strip(' .*') for one in numbered]
  parts = text.split('\n\n')[0].replace('\n', ',').split(',')
  return [part.strip(' .*') for part in parts if part.strip(' .*')]


def _label(given: Any, classes: int) -> float | int | None:
  """A class below `classes`, or any number where that is 0; None is neither."""
  if isinstance(given, str):
    if not _NUMBER.fullmatch(given.strip()):
      return None
    given = float(given)
  if isinstance(given, bool) or not isinstance(given, int | float):
    return None
  if classes:
    whole = 0 <= given < classes and given == int(given)
    return int(given) if whole else None
  return float(given) if abs(given) < 1e30 else None


class LabelReader(name_reader.NameReader):
  """Reads labels too."""

  def read(self, question: Query, text: str) -> Answer:
    """See NameReader."""
    if question.kind == queries.LABELS:
      return read_labels(question, text)
    return super().read(question, text)


class LanguageModel(asked.LanguageModel, core.Adaptable):
  """Answers about labels too, by examples in the prompt.

  A data set's prompt has no more tokens than the world may have.
  """

  reads = LabelReader

  def adapt(
    self,
    sets: core.Sets | core.Stream,
    asked: core.Asked,
    kind: core.Kind,
    steps: tuple[int, ...],
    seed: int,
    tuning: core.Tuning = core.TUNING,
  ) -> core.Adapted:
    """See core.Adaptable: one call a data set; steps make no difference.

    The class that is said has the score log 1.5, others log 0.5. All of a data
    set without an answer is NaN; places that are DEAD are 0.

    Raises:
      InputError: a place has several labels, a prompt is too long, or data
        sets have no end.
    """
    core.check_adapting(sets, asked, kind, steps, tuning)
    if isinstance(sets, core.Stream):
      raise core.InputError(
        'a language model is shown all labels in its prompt; expected data '
        'sets, and no stream of them'
      )
    if isinstance(kind, core.Classes) and kind.heads > 1:
      raise core.InputError(
        f'a language model is asked for one label a place, not {kind.heads}'
      )
    questions = [
      self._labels(sets, asked, kind, d) for d in range(len(sets.tokens))
    ]
    there = asked.places != core.DEAD
    k = kind.k if isinstance(kind, core.Classes) else 0
    shape = (1, k) if k else (kind.outputs,)
    outputs = np.zeros((*there.shape, *shape), np.float32)
    for d, answer in enumerate(self.ask(questions)):
      if answer.value is None:
        outputs[d] = np.nan
        continue
      said = np.array(answer.value)
      if k:
        said = np.log(0.5 + (said[:, None] == np.arange(k)))[:, None]
      outputs[d][there[d]] = said.reshape(-1, *shape)
    repeated = np.broadcast_to(outputs, (len(steps), *outputs.shape))
    return core.Adapted(repeated, np.full(len(steps), np.nan))

  def _labels(
    self, sets: core.Sets, asked: core.Asked, kind: core.Kind, d: int
  ) -> Query:
    """The question of data set d."""
    examples = []
    for n, p in np.argwhere(sets.places[d] != core.DEAD):
      words = self._words(_upto(sets.tokens[d, n], sets.places[d, n, p]))
      given = [f'{one:.6g}' for one in sets.labels[d, n, p].tolist()]
      label = given[0] if len(given) == 1 else f'[{", ".join(given)}]'
      examples.append((words, label))
    wanted = [
      self._words(_upto(asked.tokens[d, m], asked.places[d, m, p]))
      for m, p in np.argwhere(asked.places[d] != core.DEAD)
    ]
    text = prompt(self._told, examples, wanted, kind)
    tokens = verbal.text_tokens(text)
    if tokens > self._most:
      raise core.InputError(
        f'{self.world.name}: {len(examples)} sequences with labels and '
        f'{len(wanted)} without are about {tokens:,} tokens in words; expected '
        f'at most {self._most:,} (most_told): fewer or shorter ones'
      )
    each = (1, kind.k) if isinstance(kind, core.Classes) else (kind.outputs, 0)
    form = len(wanted), *each
    # Data sets that differ in labels alone are told apart by a hash.
    mark = int(hashlib.sha256(text.encode()).hexdigest()[:13], 16)
    return Query(text, queries.LABELS, (mark,), (form,), d)


def _upto(tokens: np.ndarray, place: int) -> Tokens:
  return tuple(tokens[: place + 1].tolist())
