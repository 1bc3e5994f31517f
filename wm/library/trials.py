"""Trials for other programs: what metrics ask, and scores of other answers.

    asked = wm.trials('distinction(samples=0)', 'maps(rows=6)')
    asked['answer'] = [my_program(row) for row in asked.itertuples()]
    wm.judge(asked, 'distinction(samples=0)', 'maps(rows=6)', out='runs/mine')

A metric is run on a reader that has no model behind it. It looks answers up,
and notes the questions that it has no answer to. Some metrics ask more once
they have answers: what a model draws next depends on what it said before.
Those are asked in rounds, until none is open:

    answers = pd.DataFrame(columns=['key', 'answer'])
    while len(asked := wm.trials(metric, world, answers=answers)):
      answers = pd.concat([answers, my_answers(asked)])
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.core import capabilities, inputs, queries, registry, resources
from wm.core.measure import lacks, need_word
from wm.core.predictor import Tokens
from wm.evaluation import context
from wm.evaluation import scoring as scoring_lib
from wm.library import calls
from wm.models.serving import stateless
from wm.options import shown, takes
from wm.options.calls import Path, Scoring
from wm.runtime import files

LOG_PROBS = 'log_probs'
# What a program can say: next-token probabilities, or only yes and no.
FORMS = LOG_PROBS, 'answers'
SUFFIXES = '.csv', '.jsonl', '.parquet'
COLUMNS = (
  *('key', 'question', 'prefix', 'suffix', 'prefix_tokens', 'suffix_tokens'),
  *('state', 'truth'),
)
TOLERANCE = 1e-3  # Of the logarithm of a sum of probabilities.
_BOOLS = {'yes': True, 'true': True, '1': True, '1.0': True}
_BOOLS |= {'no': False, 'false': False, '0': False, '0.0': False}


class _TokenQuery(NamedTuple):
  """LOG_PROBS, YES_NO or ALL_NEXT; a suffix of YES_NO alone."""

  kind: str
  prefix: Tokens
  suffix: Tokens = ()


class _Ledger:
  """The questions that come up, by key, and the answers to them.

  Attributes:
    asked: key -> question, in the order in which they come up.
    open: keys of those without an answer.
  """

  def __init__(self, world: core.World, answers: Mapping[str, Any]) -> None:
    """answers: key -> what a program replies."""
    self.asked: dict[str, _TokenQuery] = {}
    self.open: dict[str, None] = {}
    self._world, self._answers = world, answers
    self._spec = f'{registry.spec(world)} {world.version}'
    self._ids = {word: token for token, word in enumerate(world.vocab)}
    self._values: dict[_TokenQuery, Any] = {}

  def value(self, question: _TokenQuery) -> Any:
    """The answer: [V] float32, bool or tokens; None where there is none."""
    if question not in self._values:
      text = f'{self._spec} {question.kind} {question.prefix} {question.suffix}'
      key = hashlib.sha256(text.encode()).hexdigest()[:16]
      self.asked[key] = question
      if key not in self._answers:
        self.open[key] = None
      self._values[question] = self._parsed(key, question.kind)
    return self._values[question]

  def _parsed(self, key: str, kind: str) -> Any:
    value = self._answers.get(key)
    if key not in self._answers or (_is_blank(value) and kind != LOG_PROBS):
      return None
    try:
      return _READERS[kind](value, self._ids)
    except (ValueError, TypeError, KeyError) as error:
      raise core.InputError(
        f'the answer to {key} is {shown(value)}; expected {_EXPECTED[kind]} '
        f'({inputs.reason(error)})'
      ) from error


def _is_blank(value: Any) -> bool:
  return value is None or (isinstance(value, float) and math.isnan(value))


def _yes_no(value: Any, ids: Mapping[str, int]) -> bool:
  return _BOOLS[str(value).strip().lower()]


def _tokens(value: Any, ids: Mapping[str, int]) -> Tokens:
  """Tokens of words in a list, a JSON list, or joined by blanks."""
  if isinstance(value, str):
    is_json = value.lstrip().startswith('[')
    value = inputs.parse_json(value) if is_json else value.split()
  return tuple(sorted({ids[str(word)] for word in value} - {core.PAD}))


def _log_probs(value: Any, ids: Mapping[str, int]) -> np.ndarray:
  """[V] float32 of a list, or of a mapping of words; either may be JSON."""
  value = inputs.parse_json(value) if isinstance(value, str) else value
  out = np.full(len(ids), -np.inf)
  if isinstance(value, Mapping):
    for word, number in value.items():
      if number is not None:
        out[ids[word]] = number
  else:
    numbers = [-math.inf if number is None else number for number in value]
    if len(numbers) != len(out):
      raise ValueError(f'{len(numbers)} numbers')
    out[:] = numbers
  total = np.logaddexp.reduce(out)
  # A mapping may leave unlikely tokens out.
  few = isinstance(value, Mapping) or total == -np.inf
  if not (total <= TOLERANCE and (few or total >= -TOLERANCE)):
    raise ValueError(f'probabilities that add up to {np.exp(total):g}')
  return out.astype(np.float32)


_READERS: dict[str, Callable[[Any, Mapping[str, int]], Any]] = {
  LOG_PROBS: _log_probs,
  queries.YES_NO: _yes_no,
  queries.ALL_NEXT: _tokens,
}
_EXPECTED = {
  LOG_PROBS: 'log-probabilities in nats of all tokens, in order of id, or of '
  'some by word',
  queries.YES_NO: 'yes or no',
  queries.ALL_NEXT: 'a list of words of the vocabulary',
}


class _Predicting(stateless.Stateless):
  """Next-token log-probabilities that a program told; NaN where it did not."""

  def __init__(self, world: core.World, ledger: _Ledger) -> None:
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._ledger = world.max_len, ledger
    self._least = max(world.prompt_len, 1)

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Stateless."""
    out = np.full((len(tokens), self.vocab_size), np.nan, np.float32)
    prefixes = core.predictor.histories(tokens, lengths)
    for row, prefix in enumerate(prefixes):
      # Nothing follows an end token or the longest sequence.
      if prefix[-1] == self.end or len(prefix) >= self.max_len:
        continue
      log_probs = self._ledger.value(_TokenQuery(LOG_PROBS, prefix))
      if log_probs is not None:
        out[row] = log_probs
    return out

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; nobody asks about the prompt."""
    out = np.full((*tokens.shape, self.vocab_size), np.nan, np.float32)
    place = np.arange(tokens.shape[1])
    within = place < np.asarray(lengths)[:, None]
    row, at = np.nonzero(within & (place + 1 >= self._least))
    out[row, at] = self.last(tokens[row], at + 1)
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return _OpenSession(self.last, prefixes, lengths, num)


class _OpenSession(stateless.HistorySession):
  """A session that follows a suffix to its end where answers are missing.

  All positions of a suffix that is fixed are then asked about at once.
  """

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """See core.Session; a token without an answer counts as accepted."""
    unknown = np.isnan(self.log_probs()).any(-1)
    going = np.asarray(tokens) != core.DEAD
    return super().accepted(accept, tokens) | (unknown & going)


class _Answering(stateless.Accepting):
  """Yes and no, and lists of next tokens, as a program gave them."""

  def __init__(self, world: core.World, ledger: _Ledger) -> None:
    super().__init__(
      self._accepted,
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
    )
    self._ledger, self._least = ledger, world.prompt_len

  def _accepted(
    self, prefixes: Sequence[Tokens], suffixes: Sequence[Tokens]
  ) -> np.ndarray:
    asked = map(
      _TokenQuery, [queries.YES_NO] * len(prefixes), prefixes, suffixes
    )
    values = [self._ledger.value(question) for question in asked]
    return np.array([core.NO_ANSWER if v is None else v for v in values], int)

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Accepting; NaN without an answer."""
    out = np.full((len(tokens), self.vocab_size), -np.inf, np.float32)
    prefixes = core.predictor.histories(tokens, np.asarray(lengths))
    for row, prefix in enumerate(prefixes):
      if len(prefix) < self._least or (prefix and prefix[-1] == self.end):
        continue
      listed = self._ledger.value(_TokenQuery(queries.ALL_NEXT, prefix))
      if listed is None:
        out[row] = np.nan
      elif listed:
        out[row, list(listed)] = -math.log(len(listed))
    return out

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Accepting."""
    return self.last(tokens, lengths) > -np.inf


_READER_OF = dict(zip(FORMS, (_Predicting, _Answering), strict=True))


class _AskedMetrics(NamedTuple):
  """Metrics of one world, and how they are asked."""

  metrics: list[core.Metric]
  world: core.World
  form: str
  seed: int

  @classmethod
  def of(cls, form: str, scoring: Scoring) -> _AskedMetrics:
    """Of options; raises InputError where a metric asks nothing of tokens."""
    inputs.check_known(form, FORMS, f'form={form!r}')
    if scoring.world is None:
      raise core.InputError('world is needed, such as maps()')
    world = registry.resolve('world', scoring.world)
    metrics = calls.metrics_of(
      scoring.metrics, scoring.accept, scoring.metric_overrides
    )
    for metric in metrics:
      if missing := lacks(metric, _READER_OF[form], type(world)):
        raise core.InputError(
          f'{registry.spec(metric)} asks no questions about tokens of '
          f'{world.name}: it needs {need_word(missing[0])}; available: '
          + ', '.join(_asking(world))
        )
      resources.require(metric, world)
    return cls(metrics, world, form, scoring.seed)

  def asked(self, answers: Mapping[str, Any]) -> _Ledger:
    """Runs the metrics on answers: what they ask, and what is open."""
    ledger = _Ledger(self.world, answers)
    for metric in self.metrics:
      metric(self.reader(ledger), self.world, self.seed)
    return ledger

  def reader(self, ledger: _Ledger) -> core.Predictor:
    """What looks answers up."""
    return _READER_OF[self.form](self.world, ledger)

  def alien(self, answers: Mapping[str, Any]) -> list[str]:
    """Keys that no round asked for."""
    seen: set[str] = set()
    while True:
      reached = {key: answers[key] for key in seen & answers.keys()}
      more = self.asked(reached).asked.keys() - seen
      if not more:
        return [key for key in answers if key not in seen]
      seen |= more


def _asking(world: core.World) -> list[str]:
  """Metrics that ask about tokens of a world."""
  return [
    name
    for name in registry.names('metric')
    if not lacks(registry.find('metric', name), core.Predictor, type(world))
  ]


def _table(world: core.World, asked: Mapping[str, _TokenQuery]) -> pd.DataFrame:
  """The rows of questions, with what the world answers."""
  kinds = [question.kind for question in asked.values()]
  prefixes = [question.prefix for question in asked.values()]
  suffixes = [question.suffix for question in asked.values()]
  _, states = world.walk(world.init(len(kinds)), *queries.table(prefixes))
  alive = world.state_id(states) != core.DEAD
  written = np.full(len(kinds), '', object)
  written[alive] = capabilities.written(world, states[alive])
  truths = queries.truths(
    world,
    [
      queries.Query(
        '', queries.ALL_NEXT if kind == LOG_PROBS else kind, prefix, (suffix,)
      )
      for kind, prefix, suffix in asked.values()
    ],
  )
  columns = (
    *([*asked], kinds),
    *(context.token_texts(world, rows) for rows in (prefixes, suffixes)),
    *([list(row) for row in rows] for rows in (prefixes, suffixes)),
    written,
    [
      ('no', 'yes')[truth]
      if isinstance(truth, bool)
      else [world.vocab[token] for token in truth]
      for truth in truths
    ],
  )
  return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def _said(answers: pd.DataFrame | Path | None) -> dict[str, Any]:
  """Key -> what a program said; InputError for a table of another kind."""
  if answers is None:
    return {}
  if isinstance(answers, pd.DataFrame):
    name, table = 'answers', answers
  else:
    name, table = str(answers), _read(answers)
  for column in ('key', 'answer'):
    columns = [str(column) for column in table.columns]
    inputs.check_known(column, columns, f'{name} has no column {column!r}')
  keys = table['key'].astype(str)
  if doubled := keys[keys.duplicated()].tolist():
    raise core.InputError(
      f'{name} has {len(doubled):,} keys twice, such as {doubled[0]}; expected '
      'one answer to each'
    )
  return dict(zip(keys, table['answer'], strict=True))


def _suffix(path: Path) -> str:
  suffix = pathlib.Path(path).suffix
  inputs.check_known(suffix, SUFFIXES, f'{path} ends in {suffix!r}')
  return suffix


def _read(path: Path) -> pd.DataFrame:
  suffix, what = _suffix(path), 'a table of answers'
  with inputs.reading_file(path, what) as file:
    if suffix == '.csv':
      return pd.read_csv(file, dtype=str, keep_default_na=False, na_values=[''])
    if suffix == '.jsonl':
      lines = file.read_text('utf-8').splitlines()
      return pd.DataFrame.from_records(
        [dict(inputs.parse_json(line)) for line in lines if line.strip()]
      )
    return pd.read_parquet(file)


def _write(table: pd.DataFrame, path: Path) -> None:
  suffix = _suffix(path)
  with files.replacing(pathlib.Path(path)) as temporary:
    if suffix == '.jsonl':
      table.to_json(temporary, orient='records', lines=True)
    elif suffix == '.csv':
      table.map(_cell).to_csv(temporary, index=False)
    else:  # A column is of one type: lists of words are JSON beside 'yes'.
      truth = table['truth'].map(_cell)
      table.assign(truth=truth).to_parquet(temporary)


def _cell(value: Any) -> Any:
  return json.dumps(value) if isinstance(value, list) else value


_TAKEN = Scoring, 'accept', 'metric_overrides', 'seed'


@takes(scoring=_TAKEN)
def trials(
  metrics: core.Metric | str | Sequence[core.Metric | str],
  world: core.World | str,
  *,
  form: str = LOG_PROBS,
  answers: pd.DataFrame | Path | None = None,
  path: Path | None = None,
  scoring: Scoring,
  log: calls.Log = calls.no_log,
) -> pd.DataFrame:
  """Lists what metrics ask, so that another program can answer; see `judge`.

  Args:
    metrics: what asks; those that read activations or states ask nothing.
    world: the truth.
    form: what the program can say. 'log_probs': next-token probabilities, for
      any such metric. 'answers': whether a suffix may follow, and lists of next
      tokens; metrics whose questions are known beforehand suit it best.
    answers: given so far; only questions without one are listed. None is none.
    path: file for the table: .csv, .jsonl or .parquet.
    log: gets how many there are, and the file.

  Returns:
    A row for each question: `key`; `question`, 'log_probs' and 'all_next' (what
    may follow the prefix?) or 'yes_no' (may the suffix?); `prefix`, `suffix` in
    words and `prefix_tokens`, `suffix_tokens` as ids; `state` that the prefix
    reaches, '' if it is illegal; `truth`, 'yes', 'no' or a list of words.

  Raises:
    InputError: a metric asks nothing of tokens, or answers are unusable.
  """
  request = _AskedMetrics.of(form, scoring)
  if path is not None:
    _suffix(path)
  ledger = request.asked(_said(answers))
  table = _table(request.world, {key: ledger.asked[key] for key in ledger.open})
  log(f'{len(table):,} questions of {len(ledger.asked):,} have no answer')
  if path is not None:
    _write(table, path)
    log(f'written: {path}')
  return table


@takes(scoring=(*_TAKEN, 'name'))
def judge(
  answers: pd.DataFrame | Path,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  world: core.World | str,
  *,
  form: str = LOG_PROBS,
  out: Path | None = None,
  scoring: Scoring,
  log: calls.Log = calls.no_log,
) -> list[dict[str, Any]]:
  """Scores what another program answered to `trials`, as `score` would.

  Its trials are those of a model that `score` measures with the same settings:
  `compare` pairs them.

  Args:
    answers: a table, or a .csv, .jsonl or .parquet file of it, with columns
      `key` and `answer`. An answer to 'log_probs' is a list of the
      log-probabilities of all tokens in order of id, in nats, where null is
      -inf; or a mapping of words to them, which may leave unlikely tokens out.
      An answer to 'yes_no' is yes or no, to 'all_next' a list of words; it may
      be blank: no answer. In CSV lists and mappings are JSON.
    metrics, world, form: as `trials` got them, with its keywords.
    out: folder for scores.json, rows.parquet and breakdown.json; None keeps no
      files.
    log: gets the table and the files.

  Returns:
    As `score`.

  Raises:
    InputError: a key is missing, there twice or unknown, or an answer is
      unusable.
  """
  request, replies = _AskedMetrics.of(form, scoring), _said(answers)
  ledger = request.asked(replies)
  if ledger.open:
    raise core.InputError(
      f'{len(ledger.open):,} of {len(ledger.asked):,} questions have no '
      f'answer, such as {min(ledger.open)}; wm.trials(..., answers=...) or '
      '--trials=FILE beside --judge lists them'
    )
  rest = replies.keys() - ledger.asked.keys()
  if rest and (alien := request.alien(replies)):
    raise core.InputError(
      f'{len(alien):,} of {len(replies):,} keys are of no question of these '
      f'metrics, such as {alien[0]}; expected the world, metrics, form and '
      'seed that wm.trials or --trials got'
    )
  name = scoring.name or 'answers'
  about = {'model_spec': name, 'checkpoint': 'none'}
  reader = request.reader(_Ledger(request.world, replies))
  loaded = scoring_lib.Loaded(reader, request.world, name, about)
  return calls.score_predictor(loaded, request.metrics, scoring, out, log)
