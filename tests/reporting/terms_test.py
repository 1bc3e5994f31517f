"""Every number, axis and sign of a report is said in words, by its plug-in."""

import json
import re
import tarfile

import pytest

from tests.reporting import chart_specs
from wm.core import registry
from wm.core.measure import headline_quantities
from wm.reporting import catalog, collect, curves, tables, write


def entry(model='a', value=0.5, spec='compression()', **more) -> dict:
  return {
    **{'metric': 'compression', 'quantity': 'precision', 'spec': spec},
    **{'world': 'maps()', 'model': model, 'n': 9, 'value': value},
    **{'low': 0.25, 'high': 0.75, 'unmeasured': {}, 'seed': 0, **more},
  }


@pytest.mark.parametrize('metric', registry.names('metric'))
def test_a_metric_says_its_quantities_in_two_sentences(metric):
  cls = registry.find('metric', metric)
  columns = {'probability', *getattr(cls, 'breakdown', ())}
  assert set(headline_quantities(cls)) <= set(cls.glossary)
  assert set(getattr(cls, 'breakdown', ())) <= set(cls.glossary)
  for name, text in cls.glossary.items():
    if name not in columns:
      sentences = re.findall(r'[^.]+?(?:\.\d[^.]*)*\.(?:\s|$)', text)
      assert len(sentences) == 2, (name, text)
      assert text[0].isupper()


def test_every_quantity_of_a_scored_run_is_said(root):
  with tarfile.open(root / 'tests/golden/scored.tar.xz') as tar:
    entries = json.load(tar.extractfile('scored/scores.json'))
  assert len(entries) > 20
  for item in entries:
    assert catalog.quantity(item['metric'], item['quantity']), item['quantity']
  output = catalog.glossary(entries)
  assert output['detour: valid'] == catalog.quantity('detour', 'valid_0.75')
  assert 'detour: valid_0.75' not in output
  assert output['traversal: within'] == catalog.quantity(
    'traversal', 'within_5'
  )
  of_valid = catalog.quantity('traversal', 'optimal_of_valid')
  assert of_valid != catalog.quantity('traversal', 'optimal')
  assert output['probe'].startswith('Asks whether a linear map')


def test_axes_are_named_by_who_knows_them():
  column = catalog.column
  two_way = 'two-way streets at the current intersection'
  assert column('two_way', 'compression', 'maps()') == two_way
  assert 'moves made' in column('ply', 'compression', 'othello(size=6)')
  assert column('ply', 'compression', 'chess()').startswith('moves made')
  assert column('left', 'compression', 'seating()') == 'arrangements left'
  assert column('step', 'exactness', 'chess()').startswith('tokens')
  assert column('unheard_of', 'compression', 'lattice()') == 'unheard_of'
  assert column('two_way', 'compression', 'gone.py:World()') == 'two_way'


def test_two_way_streets_are_named_in_the_table(tmp_path):
  parts = [entry(where={'two_way': n}) for n in range(3)]
  run = collect.Run(tmp_path, [entry()], parts, [], None)
  table = curves.breakdown_table(tables.results([run], breakdown=True))
  assert table.note == 'two_way: two-way streets at the current intersection'


def test_curves_that_coincide_are_told_apart(tmp_path):
  runs = []
  for name in ('a', 'b', 'c'):
    parts = [entry(name, where={'two_way': n}) for n in range(20)]
    runs.append(collect.Run(tmp_path, [entry(name)], parts, [], None))
  (inputs,) = curves.curves(tables.results(runs, breakdown=True))
  spec = curves.draw_curves(inputs, {})
  label = chart_specs.encoding(spec, 'x')['title']
  assert ' '.join(label) == 'two-way streets at the current intersection'
  shapes = chart_specs.encoding(spec, 'shape')['scale']
  assert shapes['domain'] == ['a', 'b', 'c']
  assert len(set(shapes['range'])) == 3


def test_a_report_says_what_its_numbers_mean(tmp_path):
  (tmp_path / 'run').mkdir()
  (tmp_path / 'run/scores.json').write_text(json.dumps([entry()]))
  write.report([tmp_path / 'run'], tmp_path / 'report')
  text = catalog.quantity('compression', 'precision')
  assert text in (tmp_path / 'report' / 'report.html').read_text()
