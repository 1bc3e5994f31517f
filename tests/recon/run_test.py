"""Reconstruction from end to end: files, models, bad input, the binary."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.core import accept, capabilities, registry
from wm.data import text
from wm.evaluation.scoring import Loaded
from wm.models.serving import stateless
from wm.options.calls import Reconstruction
from wm.recon import reconstruct, run
from wm.recon import routes as routes_lib
from wm.runtime import provenance
from wm.worlds.maps import streets

CITY = "maps(rows=5, columns=5, traversal='shortest')"
FILES = {
  'edges.csv',
  'map.html',
  'map_far.png',
  'map_far.svg',
  'reconstruct.run.json',
  'summary.json',
}


@pytest.fixture(scope='module')
def world():
  return registry.make('world', CITY)


@pytest.fixture(scope='module')
def samples(world, tmp_path_factory):
  """80 lines: a fifth with a wrong direction, two ill-formed."""
  sequences = world.sample(78, seed=2)
  rng = np.random.default_rng(2)
  for n in range(0, 78, 5):
    at = 2 + rng.integers(sequences.lengths[n] - 3)
    token = sequences.tokens[n, at]
    sequences.tokens[n, at] = 2 + (token - 2 + 4) % 8  # The way back.
  path = tmp_path_factory.mktemp('samples') / 'samples.txt'
  path.write_text(text.render(sequences, world))
  a, b = world.vocab[-2:]
  with open(path, 'a', encoding='utf-8') as file:
    file.write(f'\n{a} {b} N N\n')
  return path


def _same(one, other):
  """Equal but for the commit, which may gain '-dirty'."""
  return {**one, 'commit': ''} == {**other, 'commit': ''}


def test_files_and_counts_of_a_run(world, samples, tmp_path):
  config = Reconstruction(shuffles=3, seed=4)
  summary = run.from_file(world, samples, tmp_path, config, 'mine')
  assert {p.name for p in tmp_path.iterdir()} == FILES
  assert json.loads((tmp_path / 'summary.json').read_text()) == summary
  assert (summary['sequences'], summary['ill_formed']) == (80, 2)
  lines = samples.read_text()
  words = [word for word in lines.split() if word in streets.DIRECTIONS]
  assert summary['directions'] == len(words)
  full = [line for line in lines.splitlines() if line]
  assert summary['characters'] == sum(len(line) - 1 for line in full)
  assert summary['routes'] == 78 == sum(summary['classes'].values())
  assert summary['failed'] == sum(summary['failure_reasons'].values())
  total = world.graph.num_edges
  assert summary['true_edges'] + summary['unused_edges'] == total
  orders = summary['orders']
  assert orders['n'] == 4
  assert orders['runs'][0]['failed'] == summary['failed']
  assert orders['failed']['least'] <= summary['failed']
  assert orders['failed']['most'] >= summary['failed']
  with open(tmp_path / 'edges.csv', newline='', encoding='utf-8') as file:
    rows = list(csv.DictReader(file))
  kinds = [row['class'] for row in rows]
  for kind in ('true', 'new', 'unused'):
    assert kinds.count(kind) == summary[f'{kind}_edges']
  page = (tmp_path / 'map.html').read_text()
  assert 'mine: the map implied by 78 routes' in page


def test_runs_repeat_and_folders_belong_to_one_run(world, samples, tmp_path):
  config = Reconstruction(max_miles=0.25, order='5')
  first = run.from_file(world, samples, tmp_path, config)
  kept = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
  assert _same(run.from_file(world, samples, tmp_path, config), first)
  for path in tmp_path.iterdir():
    if path.name != 'summary.json':
      assert path.read_bytes() == kept[path.name], path
  other = Reconstruction(max_miles=0.5, order='5')
  with pytest.raises(core.InputError, match='another reconstruct run'):
    run.from_file(world, samples, tmp_path, other)


def test_a_true_model_needs_no_new_edge(world, tmp_path):
  predictor = registry.make('model', 'oracle()').predictor(world, 0)
  summary = run.from_model(
    Loaded(predictor, world, 'oracle', {'checkpoint': 'none'}),
    tmp_path,
    Reconstruction(shuffles=1),
    num=60,
    accept=accept.epsilon(0.01),
  )
  assert summary['sequences'] == 60
  assert summary['failed'] == summary['new_edges'] == 0
  assert summary['classes']['valid'] == summary['routes'] > 0
  assert {p.name for p in tmp_path.iterdir()} == FILES | {
    'samples.txt',
    'samples.origin.json',
  }


def test_routes_are_kept_as_long_as_their_model_is_the_same(
  world, tmp_path, monkeypatch
):
  made, calls = run.Drawing.part, []
  monkeypatch.setattr(
    *(run.Drawing, 'part'),
    lambda drawing, first: calls.append(first) or made(drawing, first),
  )
  output = []

  def again(model: str, origin: provenance.Origin) -> tuple[dict, list, int]:
    """The summary, what was said and how many chunks were sampled."""
    output.clear()
    calls.clear()
    predictor = registry.make('model', model).predictor(world, 0)
    summary = run.from_model(
      Loaded(predictor, world, 'mine', {}, origin),
      tmp_path,
      Reconstruction(),
      num=40,
      accept=accept.epsilon(0.01),
      log=output.append,
    )
    return summary, list(output), len(calls)

  item, other = (
    provenance.Origin({'m.py': '1'}),
    provenance.Origin({'m.py': '2'}),
  )
  true, *rest = again('oracle()', item)
  assert rest == [[], 1]
  kept, *rest = again('oracle()', item)
  assert rest == [[], 0]
  assert _same(kept, true)
  wrong, *rest = again('uniform()', other)
  path = tmp_path / 'samples.txt'
  assert rest == [[f'{path}: sampled anew: m.py changed'], 1]
  assert wrong['failed'] > true['failed']
  path.write_bytes(path.read_bytes()[:100])
  mended, *rest = again('uniform()', other)
  assert rest == [
    [f'{path}: sampled anew: samples.txt is damaged: its hash is wrong'],
    1,
  ]
  assert _same(mended, wrong)
  _, (line,), num = again('uniform()', provenance.UNKNOWN)
  assert 'is not given' in line
  assert num == 1


def test_sampling_does_not_depend_on_chunks_and_goes_on(
  world, tmp_path, monkeypatch
):
  predictor = registry.make('model', 'uniform()').predictor(world, 0)
  drawing = run.Drawing(predictor, world, 30, 1, accept.epsilon(0.01))
  run.write_samples(drawing, tmp_path / 'whole.txt')
  whole = (tmp_path / 'whole.txt').read_text()
  assert whole.count('\n') == 30

  monkeypatch.setattr(run, 'CHUNK', 8)
  part, calls = run.Drawing.part, []

  def stop_at_the_third(drawing, first):
    calls.append(first)
    if len(calls) == 3:
      raise KeyboardInterrupt
    return part(drawing, first)

  monkeypatch.setattr(run.Drawing, 'part', stop_at_the_third)
  with pytest.raises(KeyboardInterrupt):
    run.write_samples(drawing, tmp_path / 'parts.txt')
  assert not (tmp_path / 'parts.txt').exists()
  run.write_samples(drawing, tmp_path / 'parts.txt')
  assert len(calls) == 3 + 2  # Two of four chunks were kept.
  assert (tmp_path / 'parts.txt').read_text() == whole
  names = {p.name for p in tmp_path.iterdir()}
  assert names == {'whole.txt', 'parts.txt'}


class _Pads(stateless.Stateless):
  """Sure that padding comes next."""

  def __init__(self, world):
    self.vocab_size = len(world.vocab)
    self.end, self.max_len = world.end, world.max_len

  def log_probs(self, tokens, lengths):
    sure = np.full(self.vocab_size, -50, np.float32)
    sure[core.PAD] = 0
    return np.tile(sure, (*tokens.shape, 1))


def test_a_sequence_that_draws_padding_stops_there(world, tmp_path):
  rule = accept.epsilon(0.01)
  path = tmp_path / 'pads.txt'
  run.write_samples(run.Drawing(_Pads(world), world, 3, 1, rule), path)
  assert text.read(path, world).lengths.tolist() == [2, 2, 2]


def test_prompts_are_pairs_with_a_path(world):
  heads = run.prompts(world, 50, seed=0)
  states = world.walk(world.init(50), heads, np.full(50, 2))[1]
  assert (heads[:, 0] != heads[:, 1]).all()
  budget = np.full(50, world.max_len)
  assert capabilities.feasible_tokens(world, states, budget).any(-1).all()


def test_prompts_are_pairs_of_a_split(world):
  of_split = {
    split: run.prompts(world, 900, 0, split) - 10
    for split in ('train', 'heldout')
  }
  train, held = ({*map(tuple, pairs)} for pairs in of_split.values())
  assert not train & held
  assert 5 < len(held) < len(train)
  # There are fewer held-out pairs than were asked for: they come again.
  np.testing.assert_array_equal(
    of_split['heldout'][: 900 - len(held)], of_split['heldout'][len(held) :]
  )
  drawn = world.sample(900, 0, 'train').tokens[:, :2]
  np.testing.assert_array_equal(of_split['train'][: len(drawn)], drawn - 10)


def test_a_summary_says_which_pairs_routes_are_for(world, tmp_path):
  result = {}
  for pairs in ('uniform', 'heldout'):
    summary = wm.reconstruct(
      'oracle()', tmp_path / pairs, world, num=40, pairs=pairs
    )
    result[pairs] = summary.get('pairs')
    heads = text.read(tmp_path / pairs / 'samples.txt', world).tokens[:, :2]
    np.testing.assert_array_equal(heads, run.prompts(world, 40, 0, pairs))
  assert result == {'uniform': None, 'heldout': 'heldout'}
  with pytest.raises(core.InputError, match='another reconstruct run'):
    wm.reconstruct('oracle()', tmp_path / 'heldout', world, num=40)
  with pytest.raises(core.InputError, match="pairs='any'; available: uniform"):
    wm.reconstruct('oracle()', tmp_path / 'any', world, pairs='any')


def test_controls_and_rates_must_agree():
  with pytest.raises(core.InputError, match='for the control uniform'):
    Reconstruction(control='valid', error_rate=0.1)
  with pytest.raises(core.InputError, match='available: none, valid'):
    Reconstruction(control='noise')
  with pytest.raises(core.InputError, match='seed >= 0'):
    Reconstruction(order='backwards')


def test_binary(samples, tmp_path):
  out = tmp_path / 'map'
  printed = binaries.printed(
    *('reconstruct', f'--world={CITY}', f'--samples={samples}'),
    *('--max_degree=3', '--max_miles=0.4', '--variant=paper'),
    *('--error_rate=0.5', f'--out={out}'),
  )
  assert 'failed: ' in printed
  summary = json.loads((out / 'summary.json').read_text())
  assert summary['control'] == 'uniform'
  assert (summary['variant'], summary['max_degree']) == ('paper', 3)


def test_bad_input_is_one_line_and_leaves_nothing(world, tmp_path):
  bad, out = tmp_path / 'bad.txt', tmp_path / 'out'
  a, b = world.vocab[-2:]
  bad.write_text(f'{a} {b} N end\n{a} 999 N end\n')
  cases = {
    "line 2: unknown token '999'": (f'--world={CITY}', f'--samples={bad}'),
    'no street map': ('--world=connect4()', f'--samples={bad}'),
    'should be one of <program|paper>': ('--variant=code',),
  }
  for message, flags in cases.items():
    line = binaries.refused('reconstruct', f'--out={out}', *flags)
    assert message in line
    assert not out.exists()


def test_samples_are_not_counted_or_chosen(samples, tmp_path):
  with pytest.raises(core.InputError, match="num=20, pairs='uniform' were"):
    wm.reconstruct(None, tmp_path / 'map', CITY, samples=samples, num=20)
  assert not (tmp_path / 'map').exists()


def test_a_model_without_one_route_still_has_a_map(world, tmp_path):
  a, b = world.vocab[-2:]
  path = tmp_path / 'samples.txt'
  path.write_text(f'{a} {b}\n{a} {b} N NE\n')
  config = Reconstruction(max_miles=0.0, shuffles=1)
  summary = run.from_file(world, path, tmp_path / 'out', config)
  assert (summary['ill_formed'], summary['routes']) == (2, 0)
  assert summary['true_edges'] == summary['new_edges'] == 0
  assert summary['unused_edges'] == world.graph.num_edges
  assert (tmp_path / 'out' / 'map.html').is_file()


@pytest.mark.parametrize('kind', ['state', 'prefix'])
def test_edges_say_whether_their_errors_recur(world, samples, tmp_path, kind):
  """Errors that are a function of the state recur; of the prefix, rarely."""
  model = f"null(kind='{kind}', illegal_mass=0.2)"
  wm.score(model, ['audit()', 'coherence()'], world, out=tmp_path)
  graph = world.graph
  routes, _ = routes_lib.extract(text.read(samples, world), world)
  source, label = np.indices(graph.delta.shape).reshape(2, -1)
  legal = graph.delta.reshape(-1) >= 0
  edges = pd.DataFrame(
    {
      'source': source,
      'label': label,
      'kind': np.where(legal, reconstruct.TRUE, reconstruct.FALSE),
    }
  )
  loaded = wm.load_predictor(model, world)
  errors = run.stored_errors(
    loaded, registry.spec(accept.epsilon(0.01)), tmp_path
  )
  run.add_errors(edges, graph, routes, errors)
  # Those of another model, or by another rule, are not this model's.
  other = wm.load_predictor('null(illegal_mass=0.3)', world)
  assert not run.stored_errors(
    other, registry.spec(accept.epsilon(0.01)), tmp_path
  )
  assert not run.stored_errors(
    loaded, registry.spec(accept.epsilon(0.05)), tmp_path
  )
  audited = wm.audit(model, world)
  false = {move[:2]: move.share for move in audited.false}
  missing = {move[:2]: move.share for move in audited.missing}
  for edge, real in zip(edges.itertuples(), legal, strict=True):
    move = graph.names[edge.source], streets.DIRECTIONS[edge.label]
    share = 1 - missing.get(move, 0) if real else false.get(move, 0)
    assert edge.accepted == pytest.approx(share)
  assert edges.recurs[legal].isna().all()
  recurs = edges.recurs.dropna()
  assert len(recurs) > 50
  assert (recurs == 1).all() if kind == 'state' else recurs.mean() < 0.5


def test_edges_without_an_audit_say_nothing_of_errors(world, samples, tmp_path):
  run.from_file(world, samples, tmp_path, Reconstruction(), 'mine')
  edges = pd.read_csv(tmp_path / 'edges.csv')
  assert edges[['accepted', 'recurs']].isna().all(axis=None)
