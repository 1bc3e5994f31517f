"""Prompts of the seating puzzle, and replies to them."""

import itertools
import re

import numpy as np
import pytest

from wm import core
from wm.evaluation import statistics
from wm.language.papers.seating import prompts as seating_text
from wm.language.papers.seating import score as scoring
from wm.metrics import compression, distinction
from wm.models.serving import stateless
from wm.worlds import seating

WORLD = seating.World(people=4)
SENTENCE = re.compile(
  r'^\d+\. (\w) sits (?:in seat (\d)|(\d) seats? away from (\w))\.$', re.M
)


def _solve(prompt):
  """What a careful reader answers, from the words of a prompt alone."""
  num = int(prompt.split()[0])
  left = []
  for order in itertools.permutations(range(1, num + 1)):
    seats = dict(zip('ABCDE', order, strict=False))
    if all(
      seats[p] == int(i) if i else abs(seats[p] - seats[q]) == int(d)
      for p, i, d, q in SENTENCE.findall(prompt)
    ):
      left.append(seats)
  asked = re.search(r'Where is (\w) seated', prompt)
  if asked:
    return f'Surely.\nANSWER: {left[0][asked[1]]}'
  return f'Let me see.\nANSWER: {"yes" if left else "no"}'


def _said(tokens):
  return [WORLD.vocab[token] for token in tokens]


def _continued(known, more):
  return seating_text.continuation_question(
    WORLD.names, _said(known), _said(more)
  )


def test_the_prompt_says_all_there_is_to_know():
  tokens = [WORLD.vocab.index(word) for word in ('B@1', 'C-A=2')]
  prompt = _continued(tokens[:1], tokens[1:])
  assert prompt.startswith('4 people, A, B, C and D, take 4 seats in a row.')
  assert '\n1. B sits in seat 1.\n' in prompt
  assert '\n2. C sits 2 seats away from A.\n' in prompt
  assert 'valid continuation' in prompt
  assert prompt.endswith('"ANSWER: " followed by yes or no.')
  empty = _continued([], tokens[1:])
  assert '(nothing yet)' in empty
  assert '\n1. C sits' in empty


def test_a_reader_of_prompts_solves_every_puzzle():
  result = WORLD.questions(20, 3)
  for n in range(20):
    tokens = result.tokens[n, : result.lengths[n]]
    person, seat = WORLD.vocab[result.side['answer'][n]].split('@')
    prompt = seating_text.seat_question(WORLD.names, _said(tokens), person)
    reply = _solve(prompt)
    assert scoring.seat(reply, 4).value == int(seat)


def _accepts(ask, strict=False):
  """A language model, prompt -> reply, as a function for `Accepting`."""

  def answer(prefixes, suffixes):
    verdicts = []
    for prefix, suffix in zip(prefixes, suffixes, strict=True):
      reply = ask(_continued(prefix, suffix))
      value = scoring.verdict(reply, strict).value
      verdicts.append(core.NO_ANSWER if value is None else int(value))
    return np.array(verdicts, np.int8)

  return answer


def _model(ask, **fields):
  return stateless.Accepting(
    _accepts(ask, **fields),
    vocab_size=len(WORLD.vocab),
    end=WORLD.end,
    max_len=WORLD.max_len,
  )


def _values(model):
  compress = compression.Metric(trials=12, samples=5, k=1, suffixes='world')
  distinguish = distinction.Metric(trials=12, samples=0, k=1, max_elements=5)
  precision, recall = (m(model, WORLD, 0)[0] for m in (compress, distinguish))
  assert (precision.quantity, recall.quantity) == ('precision', 'recall')
  return precision, recall


def test_a_reader_of_prompts_is_perfect():
  for scores in _values(_model(_solve)):
    assert statistics.summarize(scores)['value'] == 1
    assert statistics.summarize(scores)['n'] >= 6


def test_a_reader_without_an_answer_is_no_reader():
  precision, _ = _values(_model(lambda prompt: 'I cannot tell.'))
  reasons = set(precision.reason) - {'', 'no_two_prefixes_equal'}
  assert reasons == {'no_answer'}
  # A reader who shouts is one, but not to the published program.
  loud = _model(lambda prompt: _solve(prompt).upper())
  assert statistics.summarize(_values(loud)[0])['value'] == 1
  strict = _model(lambda prompt: _solve(prompt).upper(), strict=True)
  assert statistics.summarize(_values(strict)[0])['n'] == 0


def test_one_answer_for_each_question():
  asked = []

  def ask(prompt):
    asked.append(prompt)
    return 'ANSWER: yes'

  model = _model(ask)
  prefixes = [(1,), (1,), (2,)]
  np.testing.assert_array_equal(model.answers(prefixes, [(5,)] * 3), 1)
  assert len(asked) == 2


def test_words_may_come_from_the_files_of_the_user(tmp_path):
  """Every text is theirs; none of the statements is in our words."""
  kinds = '', 'seat', 'continuation', 'at', 'apart'
  protocol = scoring.Protocol(puzzles=1, trials=1, prompts=str(tmp_path))
  for kind in kinds[:-1]:
    if kind:
      places = {
        'seat': '{people} ({statements}): {person}?',
        'continuation': '{people} ({statements}), {more}?',
        'at': '{person} on {seat}\n',
      }
      (tmp_path / f'{kind}.txt').write_text(places[kind])
    with pytest.raises(core.InputError) as failure:
      [*protocol.settings()]
    expected = 'expected seat.txt, continuation.txt, at.txt, apart.txt'
    assert str(failure.value).endswith(expected)
  (tmp_path / 'apart.txt').write_text('{person} {distance} from {other}\n')
  texts = [q.prompt for _, asked in protocol.settings() for q, _ in asked]
  form = r'A, B and C \((\d\. \w (on \d|\d from \w)\n?)*\)(: \w|, \d.*)\?'
  assert all(re.fullmatch(form, text, re.DOTALL) for text in texts)
  assert not any('sits' in text for text in texts)
