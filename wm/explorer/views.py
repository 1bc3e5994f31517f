"""The explorer's views: functions from tokens to the data that a page draws.

A view is a JSON-compatible dictionary. Views depend on a world's interfaces:
`Written` gives the picture, `Prefixed` two prefixes of one state, `Enumerable`
the suffixes that distinguish two states, `Labelled` the labels of a probe.
"""

from __future__ import annotations

import dataclasses
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, inputs, registry
from wm.core import predictor as predictors
from wm.core.accept import Accept
from wm.core.capabilities import Box
from wm.evaluation import engine, probing
from wm.evaluation.scoring import Loaded

View = dict[str, Any]

BUCKET = 16  # Lengths are rounded up to it, so that few programs are compiled.
REACH = 8  # Most tokens of a continuation.
# Continuations of a prefix that are drawn or checked side by side, and most
# distinguishing suffixes that are shown: each number is a program to compile.
LANES = 24
SESSIONS, ANSWERS = 4, 200  # Cached for each model between clicks.
AHEAD = 8  # Most tokens that a session is advanced, instead of a new one.
PROBED = 400  # Sequences that a probe is fitted on.
PROBE_LAYER = -1  # The last layer, where most of the state is computed.
PROBE_POINTS = 20_000  # Most positions to fit, and most to test.
PROBE_EPOCHS = 40
# Fields of a permalink: prefix shown, prefix of another place, and a trial's
# prefixes, continuation and place where it fails; five are lists of tokens.
FRAGMENT = (
  *('prefix', 'second', 'first', 'other', 'suffix'),
  *('at', 'trial', 'model', 'tab', 'seed'),
)


class StateProbe(NamedTuple):
  """A linear softmax classifier for each of K labels after the last layer.

  Attributes:
    weights: [D, K, C] float32.
    biases: [K, C] float32.
    values: K arrays, the value of each class of a label.
    accuracy: [K] accuracy on held-out positions.
  """

  weights: np.ndarray
  biases: np.ndarray
  values: list[np.ndarray]
  accuracy: np.ndarray

  def read(self, hidden: np.ndarray) -> np.ndarray:
    """[K] label values that the probe predicts from activations [D]."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    classes = linear_probe.named(hidden[None], self.weights, self.biases)[0]
    return np.array([v[c] for v, c in zip(self.values, classes, strict=True)])


def fit_probe(
  predictor: core.HiddenStates, world: core.Labelled, num: int, seed: int
) -> StateProbe:
  """Fits a probe on sequences of a world (Vafa et al. 2024, section 3.1).

  Fits on about four fifths of the tasks, and tests on the rest.

  Args:
    predictor: whose activations are read.
    world: its states are the labels, as `metrics.probe` reads them.
    num: held-out sequences.
    seed: of the sequences and of the fit.

  Raises:
    InputError: the sequences have no labelled state.
  """
  from wm.evaluation import linear_probe  # Deferred: it imports JAX.

  sequences = world.sample(num, seed, split='heldout')
  fits = sequences.lengths <= predictor.max_len
  sequences = sequences.take(np.flatnonzero(fits))
  points = probing.label(world, sequences)
  if not len(points.row):
    raise core.InputError(f'{world.name}: no state to read in {num} sequences')
  test = probing.by_task(points, world.split_key(sequences), seed)
  target, values = probing.classes(points.label)
  features = probing.activations(predictor, sequences, points, PROBE_LAYER)
  train = np.flatnonzero(~test) if (~test).any() else np.arange(len(test))
  train = np.random.default_rng([seed, 1]).permutation(train)[:PROBE_POINTS]
  weights, biases = linear_probe.fit(
    features[train],
    target[train],
    np.array([len(seen) for seen in values]),
    epochs=PROBE_EPOCHS,
    seed=seed,
  )
  tested = np.flatnonzero(test)[:PROBE_POINTS]
  named = linear_probe.named(features[tested], weights, biases)
  accuracy = (named == target[tested]).mean(0)
  return StateProbe(weights, biases, values, accuracy)


class KeptSessions:
  """Next-token log-probabilities of one prefix after another.

  A prefix that extends an earlier prefix reuses that session: a click costs a
  model one token.
  """

  def __init__(self, reader: core.Predictor) -> None:
    """reader: whose sessions these are."""
    self._reader = reader
    # Prefix -> its session; the last ones of several tabs.
    self._sessions: dict[core.predictor.Tokens, core.Session] = {}
    self._answers: dict[core.predictor.Tokens, np.ndarray] = {}

  def log_probs(self, tokens: core.predictor.Tokens) -> np.ndarray:
    """[V] float32 of the token after a prefix."""
    if tokens not in self._answers:
      session = self._session(tokens)
      _keep(self._sessions, tokens, session, SESSIONS)
      answer = np.array(session.log_probs())[0, 0]
      _keep(self._answers, tokens, answer, ANSWERS)
    return self._answers[tokens]

  def _session(self, tokens: core.predictor.Tokens) -> core.Session:
    """A session at a prefix, of one continuation."""
    starts = (tokens[:-k] for k in range(1, min(AHEAD, len(tokens)) + 1))
    start = next((start for start in starts if start in self._sessions), None)
    if start is None:
      row = np.array([tokens], np.int32).reshape(1, -1)
      return self._reader.session(row, np.array([len(tokens)]), 1)
    session = self._sessions.pop(start)
    for token in tokens[len(start) :]:
      session.advance(np.array([[token]], np.int32))
    return session


def _keep(store: dict[Any, Any], key: Any, value: Any, most: int) -> None:
  """Keeps a value, and forgets the oldest beyond `most`."""
  store[key] = value
  while len(store) > most:
    del store[next(iter(store))]


@dataclasses.dataclass(frozen=True)
class Explorer:
  """Predictors of one world, and the rule by which they accept a token.

  Attributes:
    world: whose rules are shown.
    loaded: predictors by the name that the page calls them.
    accept: which next tokens count as possible.
    seed: of prefixes, continuations and probes.
    worst: worst trials that the page jumps to, see `wm.explorer.page`.
  """

  world: core.World
  loaded: Mapping[str, Loaded]
  accept: Accept
  seed: int = 0
  worst: Sequence[View] = ()
  # Many requests come at once: one reads models, and one at most asks for what
  # takes long, so that clicks wait for a model alone.
  lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
  slow: threading.Lock = dataclasses.field(default_factory=threading.Lock)
  _kept: dict[str, KeptSessions] = dataclasses.field(default_factory=dict)
  _probes: dict[str, StateProbe] = dataclasses.field(default_factory=dict)

  def about(self) -> View:
    """Data that the page needs once: vocabulary, models and views."""
    return {
      'world': registry.spec(self.world),
      'vocab': list(self.world.vocab),
      'end': self.world.end,
      'prompt': self.world.prompt_len,
      'longest': self.world.max_len,
      'accept': repr(self.accept),
      'models': [self._model(name) for name in self.loaded],
      'twins': isinstance(self.world, core.Prefixed),
      'apart': isinstance(self.world, core.Enumerable),
      'labels': self._labels(),
      'worst': list(self.worst),
    }

  def _model(self, name: str) -> View:
    reader = self.loaded[name].predictor
    labelled = self._labels() > 0
    probed = labelled and isinstance(reader, core.HiddenStates)
    return {
      'name': name,
      'predicts': isinstance(reader, core.Predictor),
      'names_states': labelled and isinstance(reader, core.StatePredictor),
      'probed': probed,
    }

  def _labels(self) -> int:
    """How many labels a probe reads of a state; 0 where it cannot."""
    if not isinstance(self.world, core.Labelled):
      return 0
    try:
      return len(probing.sizes(self.world))
    except core.InputError:
      return 0

  def tokens(self, listed: Any) -> np.ndarray:
    """[L] int32 of ids or of a text of tokens.

    Raises:
      InputError: no list of tokens of this world, or too many.
    """
    if isinstance(listed, str):
      listed = listed.split()
    if not isinstance(listed, list) or len(listed) > 4 * self.world.max_len:
      raise core.InputError(
        f'tokens: expected a list of up to {4 * self.world.max_len}'
      )
    ids = {word: n for n, word in enumerate(self.world.vocab)}
    values = [ids.get(token, token) for token in listed]
    for token in values:
      if type(token) is not int or not 0 < token < len(ids):
        raise core.InputError(
          f'{str(token)[:40]!r} is no token of {self.world.name}; expected '
          f'one of {len(ids) - 1}, such as {self.world.vocab[1]!r}'
        )
    return np.array(values, np.int32)

  def check_fragment(self, fragment: str) -> None:
    """Raises InputError if this is nothing that the page can open.

    fragment: what follows '#' in a page's address, such as 'prefix=1+N'.
    """
    try:
      fields = dict(urllib.parse.parse_qsl(fragment, strict_parsing=True))
    except ValueError as error:
      raise core.InputError(
        f"{fragment[:60]!r} is no view; expected fields as in 'prefix=A+B'"
      ) from error
    for name, text in fields.items():
      inputs.check_known(name, FRAGMENT, f'{name[:60]!r} is no field of a view')
      if name in FRAGMENT[:5]:
        self.tokens(text)

  def state(self, tokens: np.ndarray) -> tuple[int, np.ndarray]:
    """Tokens followed before the first illegal one, and the state [W] then."""
    steps, states = self.world.walk(
      self.world.init(1), tokens[None], np.array([len(tokens)])
    )
    return int(steps[0]), states[0]

  def walk(self, tokens: np.ndarray) -> View:
    """The place that a prefix [L] leads to, and what each model says there."""
    steps, state = self.state(tokens)
    alive = steps == len(tokens)
    legal = self.world.legal(state[None])[0] & alive
    models = {name: self.next(name, tokens, legal) for name in self.loaded}
    return {
      'tokens': tokens.tolist(),
      'steps': steps,
      'place': self.place(state),
      'over': bool(alive and not legal.any()),
      'legal': np.flatnonzero(legal).tolist(),
      'boxes': self._boxes(state, legal, models),
      'models': models,
    }

  def place(self, state: np.ndarray) -> View:
    """A state as text and picture; where a world writes neither, its id."""
    if not isinstance(self.world, core.Written):
      number = int(self.world.state_id(state[None])[0])
      return {'text': f'state {number}', 'picture': None}
    return {
      'text': self.world.format(state),
      'picture': self.world.render(state),
    }

  def _boxes(
    self, state: np.ndarray, legal: np.ndarray, models: Mapping[str, View]
  ) -> dict[int, list[Box]]:
    """Boxes of legal and of accepted tokens, see `core.Written.token_boxes`."""
    if not isinstance(self.world, core.Written) or not legal.any():
      return {}
    accepted = {
      row[0] for view in models.values() for row in view['tokens'] if row[3]
    }
    tokens = sorted(accepted.union(np.flatnonzero(legal).tolist()))
    return self.world.token_boxes(state, tokens)

  def _predictor(self, name: str) -> core.TokenReader:
    inputs.check_known(name, self.loaded, f'{name[:60]!r} is no model here')
    return self.loaded[name].predictor

  def next(self, name: str, tokens: np.ndarray, legal: np.ndarray) -> View:
    """A model's prediction of the next token.

    Returns:
      tokens: rows [token, probability, legal, accepted] of all tokens that are
        legal, accepted or above probability 0.001, most probable first.
      legal_mass: probability on legal tokens; None without a prediction.
      reason: why the model gives no prediction, else ''.
    """
    reader = self._predictor(name)
    reason = self._unread(reader, tokens)
    if reason:
      return {'reason': reason, 'tokens': [], 'legal_mass': None}
    return self._ranked(self._log_probs(name, tokens), legal)

  def _unread(self, reader: core.TokenReader, tokens: np.ndarray) -> str:
    """Why a model gives no prediction after these tokens, or ''."""
    if not isinstance(reader, core.Predictor):
      return 'This model names states and gives no next tokens.'
    if not len(tokens):
      return 'The first token is given: models begin after it.'
    if len(tokens) > reader.max_len:
      return f'The model reads up to {reader.max_len} tokens.'
    if len(tokens) < self.world.prompt_len:
      return 'The task is still to be stated.'
    return ''

  def _ranked(self, log_probs: np.ndarray, legal: np.ndarray) -> View:
    """Next tokens [V] as `next` lists them."""
    accepted = np.asarray(self.accept.mask(log_probs[None]))[0]
    p = np.exp(log_probs.astype(np.float64))
    shown = np.flatnonzero(legal | accepted | (p > 1e-3))
    order = shown[np.argsort(-p[shown], kind='stable')]
    return {
      'reason': '',
      'tokens': [
        [int(v), float(p[v]), bool(legal[v]), bool(accepted[v])] for v in order
      ],
      'legal_mass': float(p[legal].sum()),
    }

  def _log_probs(self, name: str, tokens: np.ndarray) -> np.ndarray:
    """[V] float32 of the next token."""
    reader = self._predictor(name).interactive()
    assert isinstance(reader, core.Predictor)
    with self.lock:
      sessions = self._kept.setdefault(name, KeptSessions(reader))
      return sessions.log_probs(tuple(tokens.tolist()))

  def follow(self, name: str, tokens: np.ndarray, seed: int) -> View:
    """Draws a next token from a model, or from the rules if name is ''.

    Returns:
      token: sampled from the model's accepted tokens, or uniformly from the
        legal tokens; None if no token is possible.
    """
    if not name:
      steps, state = self.state(tokens)
      legal = self.world.legal(state[None])[0] & (steps == len(tokens))
      options = np.flatnonzero(legal)
      index = np.random.default_rng([seed, len(tokens)]).integers(
        max(len(options), 1)
      )
      return {'token': int(options[index]) if len(options) else None}
    reader = self._predictor(name)
    if reason := self._unread(reader, tokens):
      raise core.InputError(f'{name}: {reason}')
    log_probs = self._log_probs(name, tokens)[None]
    uniform = basics.uniforms(np.array([seed]), len(tokens))
    token = int(np.asarray(self.accept.draw(log_probs, uniform))[0])
    return {'token': None if token == core.DEAD else token}

  def twins(self, tokens: np.ndarray, seed: int) -> View:
    """Two prefixes that reach the state of `tokens`, and for each model the
    continuations sampled after one prefix and rejected after the other.

    Follows the metric compression (Vafa et al. 2024, section 2.3).

    Raises:
      InputError: the world draws no prefixes, or none reaches this place.
    """
    world = self.world
    if not isinstance(world, core.Prefixed):
      raise core.InputError(f'{world.name} draws no prefixes to a state')
    state = self._legal_state(tokens)
    pair = self._pair_of_prefixes(world, state, seed)
    view: View = {
      'prefixes': [prefix.tolist() for prefix in pair],
      'place': self.place(state),
      'models': {},
    }
    for name, reader in self._predictors():
      with self.lock:
        view['models'][name] = self._compared(reader, pair, seed)
    return view

  def _legal_state(self, tokens: np.ndarray) -> np.ndarray:
    """The place [W] after tokens; raises InputError where one is illegal."""
    steps, state = self.state(tokens)
    if steps < len(tokens):
      raise core.InputError(f'token {steps + 1} is illegal: it leads nowhere')
    return state

  def _predictors(self) -> Iterator[tuple[str, core.Predictor]]:
    for name in self.loaded:
      reader = self._predictor(name).interactive()
      if isinstance(reader, core.Predictor):
        yield name, reader

  def _pair_of_prefixes(
    self, world: core.Prefixed, state: np.ndarray, seed: int
  ) -> list[np.ndarray]:
    """Two different prefixes of a state, where the world has two."""
    states = np.repeat(state[None], 16, 0)
    least, most = world.prefix_moves(states)[0]
    if most < least:
      raise core.InputError('no prefix reaches this place')
    generator = np.random.default_rng([seed, 3])
    moves = generator.integers(least, min(most, least + 12) + 1, len(states))
    drawn = world.sample_prefixes(states, moves, np.arange(16) + 16 * seed)
    rows = predictors.histories(drawn.tokens, drawn.lengths)
    distinct = list(dict.fromkeys(row for row in rows if row))
    if not distinct:
      raise core.InputError('no prefix reaches this place')
    pair = (distinct * 2)[:2]
    return [np.array(prefix, np.int32) for prefix in pair]

  def _compared(
    self, reader: core.Predictor, pair: Sequence[np.ndarray], seed: int
  ) -> View:
    """Continuations of either prefix, and where the other refuses them."""
    rows: list[View] = []
    for n, prefix in enumerate(pair):
      other = pair[1 - n]
      suffixes = self._continuations(reader, prefix, seed)
      places = self._refused(reader, other, suffixes)
      rows += [
        {
          'after': n,
          'suffix': list(suffix),
          'refused_at': refused,
          'illegal_at': self._refused_by_world(other, suffix),
        }
        for suffix, refused in zip(suffixes, places, strict=True)
      ]
    agreed = [row['refused_at'] is None for row in rows]
    rows.sort(key=lambda row: (row['refused_at'] is None, len(row['suffix'])))
    share = float(np.mean(agreed)) if agreed else None
    return {'agreed': share, 'continuations': rows[:12], 'drawn': len(rows)}

  def _continuations(
    self, reader: core.Predictor, prefix: np.ndarray, seed: int
  ) -> list[core.predictor.Tokens]:
    """Distinct continuations that a model accepts after a prefix."""
    longest = min(len(prefix) + REACH, reader.max_len)
    drawn = core.sample(
      reader,
      prefix[None],
      np.array([len(prefix)]),
      num=LANES,
      max_len=longest,
      seeds=np.array([seed]),
      accept=self.accept,
    )
    rows = predictors.histories(drawn.tokens[0], drawn.lengths[0])
    return list(dict.fromkeys(row for row in rows if row))

  def _refused(
    self,
    reader: core.Predictor,
    prefix: np.ndarray,
    suffixes: Sequence[Sequence[int]],
  ) -> list[int | None]:
    """Index of the first rejected token of each suffix; None without one.

    Tokens beyond the model's maximum length count as accepted.
    """
    # Of one size: each number of continuations is a program of its own.
    tokens = np.full((1, LANES, REACH), core.PAD, np.int32)
    sizes = np.zeros((1, LANES), np.int32)
    room = max(reader.max_len - len(prefix), 0)
    for n, suffix in enumerate(suffixes):
      tokens[0, n, : len(suffix)] = suffix
      sizes[0, n] = min(len(suffix), room)
    length = np.array([[len(prefix)]])
    question = prefix[None, None], length, tokens, sizes, self.accept
    steps = engine.teacher_force(reader, *question)[0, 0]
    pairs = zip(steps.tolist(), sizes[0].tolist(), strict=True)
    return [k if k < size else None for k, size in [*pairs][: len(suffixes)]]

  def _refused_by_world(
    self, prefix: np.ndarray, suffix: Sequence[int]
  ) -> int | None:
    """Place in a suffix, from 0, that is illegal; None if all is legal."""
    steps, _ = self.state(np.concatenate([prefix, np.array(suffix, np.int32)]))
    at = steps - len(prefix)
    return at if at < len(suffix) else None

  def apart(self, first: np.ndarray, second: np.ndarray | None) -> View:
    """Suffixes that distinguish two states, and whether models know them.

    The minimal suffixes that are legal after the first prefix and not after
    the second (Vafa et al. 2024, Def. 2.4); a model knows one if it accepts
    all of it after the first and not all after the second.

    Args:
      first: [L] prefix.
      second: of another place; None draws one as distinction does.

    Raises:
      InputError: the world lists no boundary, or a prefix is illegal.
    """
    world = self.world
    if not isinstance(world, core.Enumerable):
      raise core.InputError(f'{world.name} lists no boundary of two states')
    pair = [first, self._other(first) if second is None else second]
    states = [*map(self._legal_state, pair)]
    depth = min(world.boundary_depth, REACH)
    boundary = world.boundary(states[0][None], states[1][None], depth)
    suffixes = boundary.listed()[0]
    same = len({int(world.state_id(state[None])[0]) for state in states}) == 1
    return {
      'prefixes': [prefix.tolist() for prefix in pair],
      'places': [self.place(state) for state in states],
      'same': same,
      'depth': depth,
      'suffixes': [list(suffix) for suffix in suffixes[:LANES]],
      'listed': len(suffixes),
      'models': {
        name: self._knows(reader, pair, suffixes[:LANES])
        for name, reader in self._predictors()
      },
    }

  def _other(self, first: np.ndarray) -> np.ndarray:
    """A prefix of another place, as distinction draws one."""
    world = self.world
    if not isinstance(world, core.Prefixed):
      raise core.InputError(f'{world.name} draws no other place; give two')
    _, state = self.state(first)
    seed = self.seed + len(first)
    other = world.sample_others(state[None], seed)[0]
    return self._pair_of_prefixes(world, other, seed)[0]

  def _knows(
    self,
    reader: core.Predictor,
    pair: Sequence[np.ndarray],
    suffixes: Sequence[Sequence[int]],
  ) -> list[dict[str, int | None]]:
    """For each suffix, where it is refused after either prefix."""
    with self.lock:
      first, second = (self._refused(reader, end, suffixes) for end in pair)
    return [
      {'first': at, 'second': other}
      for at, other in zip(first, second, strict=True)
    ]

  def probe(self, name: str) -> StateProbe:
    """A model's probe, fitted at the first call.

    Raises:
      InputError: its activations cannot be read, or the world has no labels.
    """
    reader = self._predictor(name)
    if not self._model(name)['probed']:
      raise core.InputError(f'{name}: there is no state that a probe reads')
    if name not in self._probes:
      assert isinstance(reader, core.HiddenStates)
      assert isinstance(self.world, core.Labelled)
      with self.lock:
        self._probes[name] = fit_probe(reader, self.world, PROBED, self.seed)
    return self._probes[name]

  def read(self, name: str, tokens: np.ndarray) -> View:
    """The true labels, the labels that a probe reads, and its accuracy.

    Returns:
      accuracy: mean over labels.
      labels: a row [name, true, read, accuracy] for each label.
    """
    probe = self.probe(name)
    reader = self._predictor(name).interactive()
    assert isinstance(reader, core.HiddenStates)
    true = self._targets(tokens)
    hidden = self._hidden(reader, tokens)
    read = probe.read(hidden[0, len(tokens) - 1])
    named = self._label_names(len(true))
    rows = zip(named, true, read, probe.accuracy, strict=True)
    return {
      'accuracy': float(probe.accuracy.mean()),
      'labels': [[name, int(x), int(y), float(z)] for name, x, y, z in rows],
    }

  def _targets(self, tokens: np.ndarray) -> np.ndarray:
    """[K] labels of the place, as a probe reads them; InputError if illegal."""
    if len(tokens) < max(self.world.prompt_len, 1):
      raise core.InputError('the task is still to be stated')
    state = self._legal_state(tokens)
    return probing.targets(self.world, state[None])[0]

  def _label_names(self, num: int) -> list[str]:
    """Names of the labels that a probe reads."""
    if num == 1:
      return ['state']
    assert isinstance(self.world, core.Labelled)
    heads = self.world.heads
    start = heads.probe.start if heads.probe is not None else 0
    names = [f'label {k}' for k in range(len(heads.sizes))]
    for group, part in heads.groups.items():
      members = range(*part.indices(len(names)))
      for n, k in enumerate(members):
        names[k] = f'{group} {n}' if len(members) > 1 else group
    return names[start : start + num]

  def _hidden(
    self, reader: core.HiddenStates, tokens: np.ndarray
  ) -> np.ndarray:
    """[1, L, D] activations of a prefix that the model can read."""
    if len(tokens) > reader.max_len:
      raise core.InputError(f'the model reads up to {reader.max_len} tokens')
    size = np.array([len(tokens)], np.int32)
    width = min(-(-len(tokens) // BUCKET) * BUCKET, reader.max_len)
    row = predictors.padded(tokens[None], size, 1, width)
    with self.lock:
      return np.array(reader.hidden(row, size, PROBE_LAYER))
