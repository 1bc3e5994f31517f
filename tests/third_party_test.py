"""Every requirement of setup.py is pinned and has a notice."""

import ast
import re

import pytest
from packaging import requirements, version

# Extras for a user's own framework, or a model on this machine: notices alone.
UNPINNED = {'local', 'torch'}


def canonical(name: str) -> str:
  return re.sub(r'[-_.]+', '-', name).lower()


@pytest.fixture(scope='module')
def needed(root) -> dict[str, list[requirements.Requirement]]:
  """Extra, or '' -> requirements, as setup.py states them."""
  tree = ast.parse((root / 'setup.py').read_text())
  (call,) = (
    node.value
    for node in tree.body
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
  )
  inputs = {k.arg: k.value for k in call.keywords}
  texts = {
    '': ast.literal_eval(inputs['install_requires']),
    **ast.literal_eval(inputs['extras_require']),
  }
  return {
    extra: [requirements.Requirement(text) for text in listed]
    for extra, listed in texts.items()
  }


@pytest.fixture(scope='module')
def pins(root) -> dict[str, str]:
  """Package -> version."""
  lines = (root / 'third_party/requirements.txt').read_text().splitlines()
  pairs = [line.split('==') for line in lines if not line.startswith('#')]
  assert all(len(pair) == 2 for pair in pairs)
  return dict(pairs)


@pytest.fixture(scope='module')
def notices(root) -> str:
  return (root / 'third_party/NOTICES.md').read_text()


def test_requirements_are_pinned_at_versions_that_setup_allows(needed, pins):
  for extra, listed in needed.items():
    for requirement in listed if extra not in UNPINNED else ():
      pinned = pins.get(canonical(requirement.name))
      assert pinned is not None, f'{requirement} is not pinned'
      assert version.Version(pinned) in requirement.specifier, requirement


def test_pins_are_sorted_and_canonical(pins):
  assert list(pins) == sorted(map(canonical, pins))


def test_each_pin_has_a_notice_of_its_version_and_no_other_has(pins, notices):
  rows = re.findall(r'^\| ([\w-]+) \| (\d\S*) \| (\S.*) \|$', notices, re.M)
  assert {name: number for name, number, _ in rows} == pins
  assert len(rows) == len(pins)


def test_optional_packages_and_data_have_notices(needed, notices):
  for extra in UNPINNED:
    for requirement in needed[extra]:
      assert f'| {requirement.name} | ' in notices
  for owner in ('Keyon Vafa', 'OpenStreetMap', 'Taxi and Limousine'):
    assert owner in notices


def test_hints_name_extras_that_exist(needed, root):
  named = set()
  for path in sorted((root / 'wm').rglob('*.py')):
    text = path.read_text(encoding='utf-8')
    named |= {*re.findall(r"inputs\.extra\(\s*'(\w+)'", text)}
  for path in [root / 'README.md', *(root / 'launch').rglob('*.md')]:
    for listed in re.findall(r"'\.\[([\w,]+)\]'", path.read_text('utf-8')):
      named |= {*listed.split(',')}
  assert {'language', 'maps', 'torch'} <= named
  assert named <= needed.keys()
