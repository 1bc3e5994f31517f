"""Rules of findings: their hash, and what is refused."""

import copy
import hashlib
import json
import re

import pytest

from tests.lab.units_made_up import WALKS, finding, record
from wm import core
from wm.lab import findings

OTHER = {'metric': 'compression', 'quantity': 'precision', 'where': {'k': 1}}


@pytest.mark.parametrize(
  'words',
  [
    {'title': 'x', 'sentence': 'y', 'paper': 'z', 'printed': 'p', 'name': 'n'},
    {'date': '2027-01-31'},
    {'picture': {'kind': 'bars'}},
    {'seeds': 3},
  ],
)
def test_words_and_defaults_are_no_part_of_the_hash(words):
  plain = finding(WALKS)
  assert re.fullmatch('[0-9a-f]{12}', plain.rule_hash)
  assert finding(WALKS, **words).rule_hash == plain.rule_hash


@pytest.mark.parametrize(
  'same',
  [{'margin': 0}, {'times': 1.0}, {'where': {}}, {'published': {'walks': 1}}],
)
def test_a_default_that_is_spelled_out_is_the_same_rule(same):
  assert finding({**WALKS, **same}).rule_hash == finding(WALKS).rule_hash


def test_every_part_of_a_rule_changes_its_hash():
  changes = [
    {'metric': 'distinction'},
    {'quantity': 'recall'},
    {'where': {'step': 20}},
    {'rows': ['walks', 'more']},
    {'relation': 'below'},
    {'than': ['others']},
    {'than': 0.5},
    {'than': OTHER},
    {'times': 2},
    {'margin': 0.05},
  ]
  several = [finding({**WALKS, **change}) for change in changes]
  several += [
    finding(WALKS),
    finding(WALKS, WALKS),
    finding(WALKS, seeds=5),
    finding(WALKS, miniature='othello'),
  ]
  hashes = [each.rule_hash for each in several]
  assert len(set(hashes)) == len(hashes)


def test_a_hash_is_that_of_canonical_json():
  text = (
    '{"claims":[{"of":["compression","precision",{}],"relation":"above",'
    '"rows":["walks"],"than":["paths"]}],"miniature":"maps","seeds":3}'
  )
  known = hashlib.sha256(text.encode()).hexdigest()[:12]
  assert finding(WALKS).rule_hash == known


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'titel': 'x'}, "unknown 'titel'"),
    ({'claims': []}, 'has no claims'),
    ({'seeds': 'three'}, "seeds: expected a whole number, has 'three'"),
    ({'seeds': 1}, 'seeds is 1; expected 2 or more, as one seed decides'),
    ({'title': None}, 'title: expected a text, has None'),
    ({'date': 'May'}, "date is 'May'; expected a day as 2026-01-31"),
  ],
)
def test_bad_findings_are_one_line(change, message, one_line):
  with one_line(message):
    finding(WALKS, **change)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'relation': 'over'}, "no relation 'over'; available: above"),
    ({'variance': 'none'}, "no variance 'none'; available: trials, seeds"),
    ({'than': []}, 'expected rows, a number or a quantity'),
    ({'rows': []}, 'expected two rows or more'),
    ({'rows': [1]}, r'rows\[0\]: expected a text, has 1'),
    ({'relation': 'ordered'}, 'expected two rows or more and no `than`'),
    ({'metric': 'compresion'}, 'compresion'),
    ({'tan': 1}, "unknown 'tan'"),
    ({'beyond': False}, "unknown 'beyond'"),
    ({'than': 'paths'}, "than: expected a list or .*, has 'paths'"),
    ({'than': {'metric': 'compression'}}, 'than lacks quantity'),
    ({'than': {**OTHER, 'x': 1}}, "than has an unknown 'x'"),
    ({'margin': -0.1}, 'margin is -0.1; expected 0 or more'),
    ({'margin': 'some'}, "margin: expected a number, has 'some'"),
    ({'exclusions': []}, "unknown 'exclusions'"),
    ({'metric': 'map', 'where': {'step': 1}}, 'the map has no breakdown'),
  ],
)
def test_bad_claims_are_one_line(change, message, one_line):
  with one_line(message):
    finding({**WALKS, **change})


def test_claims_in_words():
  (claim,) = finding({**WALKS, 'times': 2, 'margin': 0.1}).claims
  assert str(claim) == (
    'compression: precision: walks above 2 times paths by more than 0.1'
  )
  (claim,) = finding({**WALKS, 'than': OTHER}).claims
  assert str(claim) == (
    'compression: precision: walks above compression: precision, k 1'
  )
  (claim,) = finding({'rows': ['a', 'b', 'c'], 'relation': 'ordered'}).claims
  assert str(claim) == 'compression: precision: a above b above c'
  assert claim.pairs == [('a', 'b'), ('b', 'c')]


def test_examples_of_the_format_are_findings(root):
  text = findings.__doc__
  example = text[text.index('{\n      "name"') : text.index('\n\nAll that')]
  parsed = findings.parse(json.loads(example), 'example')
  assert parsed.name == 'walks_compress'
  text = (root / 'launch' / 'miniature.py').read_text()
  example = text[text.index('{"name"') : text.index('\n\nIt is shown, shown')]
  plainer = findings.parse(json.loads(example), 'example')
  assert plainer.name == parsed.name


def test_results_are_judged_by_the_file_above_them(tmp_path):
  results = tmp_path / 'results' / 'maps'
  results.mkdir(parents=True)
  assert findings.beside(results) is None
  assert findings.rule_hashes(results) == {}
  listed = [
    record(WALKS),
    record(WALKS, name='other', miniature='othello'),
    record({**WALKS, 'margin': 0.1}, name='g'),
  ]
  path = tmp_path / 'findings.json'
  path.write_text(json.dumps({'findings': listed}))
  assert findings.beside(results) == path
  hashes = findings.rule_hashes(results)
  assert hashes.keys() == {'f', 'g'}
  assert hashes['f'] == finding(WALKS).rule_hash != hashes['g']
  twice = copy.deepcopy(listed[:1]) * 2
  path.write_text(json.dumps({'findings': twice}))
  with pytest.raises(core.InputError, match="two findings are called 'f'"):
    findings.rule_hashes(results)
