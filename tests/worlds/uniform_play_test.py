"""Random play: its law against all sequences, and against what is sampled."""

import collections

import numpy as np
import pytest
from scipy import stats

from tests import every_world, small
from tests.kernels.chess import ref
from tests.marks import few
from wm import core
from wm.core import registry
from wm.kernels.chess import games as policies
from wm.worlds.base.sampling import UniformPlay
from wm.worlds.chess import WORDS

TINY = (
  'connect4(rows=2, columns=2)',
  "automaton(preset='tomita3', length=6)",
  "automaton(preset='tomita3', length=7)",
  "groups(group='z3', length=3)",
  'seating(people=3, length=3)',
  'lattice(size=3, length=5)',
)
GAMES = 'othello(size=6)', 'chess(length=30, least=0)'


def laws(world: core.World) -> dict[tuple[int, ...], float]:
  """Every sequence and its probability, token by token."""
  process, done = world.data_distribution(), {}
  going = [((), process.init(1), 1.0)]
  while going:
    sequence, memory, odds = going.pop()
    tokens, log_probs = process.next(memory)
    known = tokens[0] != core.DEAD
    if not known.any() or len(sequence) == world.max_len:
      done[sequence] = odds
      continue
    assert np.exp(log_probs[0][known]).sum() == pytest.approx(1)
    for token, nats in zip(tokens[0][known], log_probs[0][known], strict=True):
      after = process.advance(memory, np.array([token], np.int32))
      going.append(((*sequence, int(token)), after, odds * np.exp(nats)))
  return done


@pytest.mark.parametrize('spec', TINY)
def test_samples_come_as_often_as_the_law_says(spec):
  world = registry.make('world', spec)
  law = laws(world)
  assert sum(law.values()) == pytest.approx(1)
  drawn = world.sample(20_000, 0)
  counted = collections.Counter(
    tuple(row[:length].tolist())
    for row, length in zip(drawn.tokens, drawn.lengths, strict=True)
  )
  assert counted.keys() <= law.keys()
  # Rare sequences are counted together.
  often = [s for s, odds in law.items() if odds * 20_000 >= 5]
  seen = [counted[s] for s in often]
  expected = [law[s] * 20_000 for s in often]
  rest = 20_000 - sum(expected)
  if rest > 1e-6:
    seen.append(20_000 - sum(seen))
    expected.append(rest)
  assert stats.chisquare(seen, np.array(expected)).pvalue > 1e-4


@pytest.mark.parametrize('spec', GAMES)
def test_first_moves_are_uniform_as_sampled(spec):
  world = registry.make('world', spec)
  games = world.sample(8000, 1)
  start = world.prompt_len + (world.legal(world.init(1)).sum() == 1)
  moves = games.tokens[:, int(start)]
  count = np.bincount(moves)[np.unique(moves)]
  assert len(count) == len(
    world.data_distribution().next(_after(world, games, start))[0][0]
  )
  assert stats.chisquare(count).pvalue > 1e-4


PLAYERS = (
  "othello(size=4, policy='search', noise=0.3)",
  "othello(size=6, policy='search', noise=0.1)",
  "chess(policy='promotions', length=8, least=0)",
  "chess(policy='promotions', lengths='human', length=30)",
)


@pytest.mark.parametrize('spec', PLAYERS)
def test_moves_come_as_often_as_the_law_of_a_policy_says(spec):
  """Chi-square of the moves after each beginning that is frequent enough."""
  world = registry.make('world', spec)
  games, process = world.sample(20_000, 0), world.data_distribution()
  memory = process.init(20_000)
  excess, degrees = 0.0, 0
  for t in range(6):
    tokens, log_probs = process.next(memory)
    _, index = np.unique(games.tokens[:, :t], axis=0, return_inverse=True)
    for group in range(index.max() + 1):
      rows = np.flatnonzero(index == group)
      known = tokens[rows[0]] != core.DEAD
      law = np.exp(log_probs[rows[0]][known])
      assert law.sum() == pytest.approx(1)
      seen = games.tokens[rows, t][:, None] == tokens[rows[0]][known]
      assert seen.any(1).all()
      expected = law * len(rows)
      if expected.min() >= 5:
        excess += float(((seen.sum(0) - expected) ** 2 / expected).sum())
        degrees += len(law) - 1
    memory = process.advance(memory, games.tokens[:, t])
  assert stats.chi2.sf(excess, max(degrees, 1)) > 1e-4


def test_a_policy_without_noise_never_leaves_its_games():
  world = registry.make('world', "othello(size=4, policy='search')")
  start = world.init(1)
  tokens, _ = world.data_distribution().next(start)
  legal = set(np.flatnonzero(world.legal(start)[0]).tolist())
  played = tokens[tokens != core.DEAD].tolist()
  assert len(played) == 1
  other = np.array([min(legal - set(played))], np.int32)
  for replan in (False, True):
    process = world.data_distribution(replan=replan)
    after, _ = process.next(process.advance(process.init(1), other))
    assert (after != core.DEAD).any() == replan


def _after(world, games, start):
  process = world.data_distribution()
  memory = process.init(1)
  for t in range(int(start)):
    memory = process.advance(memory, games.tokens[:1, t])
  return memory


def lawful() -> list:
  """Worlds and models, of all that have a law."""
  cases = []
  for name, world in every_world.WORLDS.items():
    if not isinstance(world, core.Generative):
      continue
    for spec in ('bayes()', "bayes(off='replan')"):
      try:
        registry.make('model', spec).predictor(world, 0)
      except core.InputError:  # As `test_other_play_is_one_line` has it.
        continue
      cases.append(pytest.param(world, spec, id=f'{name}-{spec}'))
  return cases


@pytest.mark.parametrize(('world', 'spec'), few(20, lawful()))
def test_bayes_is_legal(world, spec):
  entries = small.scored(spec, 'next_token(num=8)', world)
  values = {e['quantity']: e['value'] for e in entries}
  assert values['validity'] == 1
  assert values['valid_mass'] == pytest.approx(1, abs=1e-5)


def test_recorded_games_have_no_law_in_one_line(tmp_path, one_line):
  games = tmp_path / 'games.txt'
  moves = registry.make('world', 'othello()').sample(3, 0)
  vocab = registry.make('world', 'othello()').vocab
  games.write_text(
    ''.join(''.join(vocab[t] for t in row) + '\n' for row in moves.tokens)
  )
  world = registry.make('world', f"othello(records='{games}')")
  assert isinstance(world, UniformPlay)
  with one_line(r'recorded games .* bounds'):
    world.data_distribution()


def test_a_policy_of_chess_is_drawn_as_it_weighs():
  """The law after whole games, against weights by the plain rules."""
  world = registry.make(
    'world', "chess(policy='promotions', length=60, least=0)"
  )
  games, process = world.sample(4, 1), world.data_distribution()
  memory = process.init(4)
  for t in range(games.tokens.shape[1] - 1):
    memory = process.advance(memory, games.tokens[:, t])
    tokens, log_probs = process.next(memory)
    for row in np.flatnonzero(t + 1 < games.lengths)[: 1 + (t % 7 == 0)]:
      at = ref.read(memory[row, :WORDS])
      mass = {
        packed: policies.weights('promotions')[ref.kinds(at, packed)]
        for packed in ref.moves(at)
      }
      total = sum(mass.values())
      law = dict(zip(tokens[row], np.exp(log_probs[row]), strict=True))
      for packed, weight in mass.items():
        token = int(world._columns[packed])
        assert law[token] == pytest.approx(weight / total)
