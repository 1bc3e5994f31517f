"""Which tests a change reaches."""

import pytest

from tests import reached

IMPORTED = {
  'wm/a/low.py': set(),
  'wm/b/middle.py': {'wm/a/low.py'},
  'launch/run.py': {'wm/b/middle.py'},
  'wm/c/apart.py': set(),
  'tests/b/middle_test.py': {'wm/b/middle.py'},
}


def test_importers_over_any_steps_are_reached():
  assert reached.importers(['wm/a/low.py'], IMPORTED) == {
    *('wm/a/low.py', 'wm/b/middle.py', 'launch/run.py'),
    'tests/b/middle_test.py',
  }
  assert reached.importers(['wm/c/apart.py'], IMPORTED) == {'wm/c/apart.py'}


def test_rooms_stand_for_their_files():
  files = 'wm/core/world.py', 'tests/core/core_test.py', 'tests/readme_test.py'
  assert reached.tests_of(files) == {'tests/core', 'tests/readme_test.py'}
  assert reached.tests_of(['launch/score.py']) == {'tests/launch'}
  assert reached.tests_of(['wm/__init__.py', 'tests/gone_test.py']) == set()


@pytest.mark.slow
def test_the_tree_is_read_as_it_is():
  imported = reached.imports(reached.ROOT)
  assert 'wm/core/world.py' in imported['wm/core/__init__.py']
  assert 'launch/common.py' in imported['launch/score.py']
  near = reached.importers(['wm/evaluation/engine.py'], imported)
  assert {'wm/metrics/compression.py', 'tests/metrics_test.py'} <= near
  assert 'wm/core/world.py' not in near


def test_other_files_belong_to_their_package():
  files = {'wm/reporting/__init__.py': set()}
  template = 'wm/reporting/templates/report.html'
  assert reached.package(template, files) == 'wm/reporting/__init__.py'
  assert (
    reached.package('launch/flags/a.flags', files) == 'launch/flags/a.flags'
  )
