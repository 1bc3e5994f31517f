"""Cautions: who gets one on the first screen, and by which rule."""

import pytest

import wm
from tests import page_text, small
from tests.reporting.ceilings_test import REPLAN, run
from wm.models import adversary
from wm.reporting import catalog, cautions, collect, write

WORLD = 'maps(rows=6, columns=7, max_moves=20)'  # 51 tokens.
METRICS = [
  'next_token(num=100)',
  'acceptance(num=100)',
  'traversal(num=100)',
  'compression(trials=60)',
  'distinction(trials=60)',
  'excess_loss(num=100)',
]
MODELS = {
  **{'uniform': 'uniform()', 'oracle': 'oracle()'},
  **{'bayes': 'bayes()', 'replanning': REPLAN},
  **{kind: f"adversary(kind='{kind}')" for kind in adversary.KINDS},
}
# What each must be warned of, and nobody else among those without a line here.
EXPECTED = {
  'leaky': 'puts 0.38 of its probability on illegal tokens',
  'peaked': 'of the positions, depending on the threshold of acceptance',
  'deterministic': 'of the legal tokens (the Bayes predictor: ',
  'permuted': 'ends its sequences where they may not end in 1.00 of its tasks',
  'memoriser': 'of its probability on illegal tokens',
  'forgets': 'of its probability on illegal tokens',
}


@pytest.fixture(scope='module')
def page(tmp_path_factory) -> tuple[str, list[collect.Run]]:
  """The text of the report of all, and its runs."""
  folder = tmp_path_factory.mktemp('cautions')
  for name, spec in MODELS.items():
    wm.score(spec, METRICS, WORLD, out=folder / name, name=name)
  folders = [folder / name for name in MODELS]
  write.report(folders, folder / 'report')
  text = page_text.read(folder / 'report')
  assert (folder / 'report' / 'acceptance_rules.svg').is_file()
  html = (folder / 'report' / 'report.html').read_text()
  assert html.index('<h2>Cautions') < html.index('<table')
  return text, [collect.load(item) for item in folders]


def test_each_adversary_is_warned_of_and_who_knows_the_map_is_not(page):
  text, _ = page
  first = text[text.index('## Cautions') : text.index('## The table')]
  shown = {
    line.split()[1]: line
    for line in first.partition('baselines')[0].splitlines()
    if line.startswith('- ')
  }
  assert shown.keys() == EXPECTED.keys(), first
  for name, words in EXPECTED.items():
    assert words in shown[name]


def entry(value, low, high, metric='next_token', quantity='valid_mass') -> dict:
  names = {'metric': metric, 'quantity': quantity, 'spec': f'{metric}()'}
  return {**names, 'value': value, 'low': low, 'high': high, 'unmeasured': {}}


def lines(*entries: dict, best: float | None = None) -> list[str]:
  runs = [run('net', 'transformer()', 0.5, trained=True)]
  runs[0].entries[:] = [{**runs[0].entries[0], **item} for item in entries]
  if best is not None:
    runs.append(run('best', 'bayes()', best))
    runs[1].entries[:] = [
      {**runs[1].entries[0], **entries[0], 'model': 'best', 'value': best}
      | {'model_spec': 'bayes()', 'training': None, 'low': best, 'high': best}
    ]
  return [str(line) for line in cautions.cautions_of_runs(runs)[0]]


def test_the_whole_interval_is_judged():
  assert lines(entry(0.93, 0.9, 0.96)) == []
  assert lines(entry(0.93, 0.9, 0.94)) == [
    'net puts 0.07 of its probability on illegal tokens.'
  ]


@pytest.mark.parametrize(
  ('best', 'warned'), [(None, False), (0.5, False), (0.9, True)]
)
def test_recall_is_judged_against_the_ceiling(best, warned):
  shown = lines(entry(0.48, 0.47, 0.49, quantity='set_recall'), best=best)
  text = f'net accepts 0.48 of the legal tokens (the Bayes predictor: {best}0).'
  assert shown == [text] * warned


def test_results_that_lack_a_quantity_are_warned_of_without_it():
  old = entry(0.5, 0.4, 0.6, 'acceptance', 'exact_range')
  (line,) = lines(old)
  assert '–' in line
  assert '{' not in line


def test_a_setting_beside_the_plain_one_is_not_judged():
  other = entry(0.5, 0.4, 0.6) | {'spec': "next_token(states='drawn')"}
  assert lines(entry(1.0, 1.0, 1.0), other) == []


@pytest.mark.parametrize(
  ('unmeasured', 'warned'),
  [
    ({'empty': 60}, True),
    # What the world or the data lack says nothing of the model.
    ({'empty': 50, 'no_room': 4, 'no_two_states': 6}, True),
    ({'no_room': 60}, False),
    ({'empty': 50, 'vacuous': 10}, False),
    ({'empty': 50, 'no_answer': 10}, False),
  ],
)
def test_reasons_of_the_world_do_not_hide_a_model(unmeasured, warned):
  item = entry(None, None, None, 'distinction', 'precision')
  assert bool(lines(item | {'unmeasured': unmeasured})) == warned


def several(*ends: tuple[float, float, float]) -> list[str]:
  """Lines on one model of a seed for each (value, low, high)."""
  runs = []
  for seed, (value, low, high) in enumerate(ends):
    item = run('net', 'transformer()', 0.5, trained=True)
    more = {'training': f'net{seed}', 'recipe': 'r', 'training_seed': seed}
    item.entries[:] = [item.entries[0] | entry(value, low, high) | more]
    runs.append(item)
  (pooled,) = collect.pooled(runs)
  return [str(line) for line in cautions.cautions_of_runs([pooled])[0]]


def test_each_seed_is_judged_by_its_own_interval():
  bad, good = (0.8, 0.7, 0.9), (0.99, 0.98, 1.0)
  assert several(bad, bad) == [
    'net puts 0.20 of its probability on illegal tokens, in each of 2 seeds.'
  ]
  assert several(good, bad, (0.7, 0.6, 0.8)) == [
    'net puts 0.25 of its probability on illegal tokens, in 2 of 3 seeds.'
  ]
  # All values are below the limit, and no seed is clear of it.
  assert several((0.94, 0.9, 0.97), (0.93, 0.9, 0.96)) == []


def test_how_a_file_was_read_is_said_and_stored(tmp_path):
  file = tmp_path / 'ring.csv'
  file.write_text('state,symbol,next\na,,start\na,x,b\na,y,a\nb,y,a\n')
  world, lines = f'automaton(file={str(file)!r}, length=8)', []
  options = wm.Sampling(num=5, num_heldout=1)
  stores = wm.sample(world, tmp_path / 'run', options, log=lines.append)
  entries = small.scored(
    'uniform()', ['next_token(num=5)'], world, log=lines.append
  )
  notes = entries[0]['world_notes']
  assert notes['read as start'] == 'a'
  facts = stores['train'].manifest['world_facts']
  assert facts == {**facts, **notes, 'states': 2}
  for name, text in notes.items():
    assert lines.count(f'{name}: {text}') == 2
    assert text in catalog.world(world)
