"""Which files make a checkout dirty, in one made up for the purpose."""

import subprocess

import pytest

from wm.runtime import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
  """A checkout with a committed source, results and notes."""

  def git(*words: str) -> None:
    who = '-c', 'user.name=A', '-c', 'user.email=a@example.org'
    subprocess.run(['git', '-C', tmp_path, *who, *words], check=True)

  for name in ('wm/a.py', 'launch/results/maps/a-0.json', 'README.md'):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text('1\n')
  git('init', '-q')
  git('add', '.')
  git('commit', '-q', '-m', 'first')
  monkeypatch.setattr(provenance, '_ROOT', tmp_path)
  return tmp_path


@pytest.mark.parametrize(
  ('path', 'counts'),
  [
    ('wm/a.py', True),
    ('README.md', True),
    ('wm/new.py', True),
    ('launch/new.flags', True),
    ('launch/results_of_others.json', True),
    ('launch/results/maps/a-0.json', False),
    ('launch/results/maps/b-0.json', False),
    ('launch/results/other/a-0.png', False),
    ('notes.txt', False),
    # A plug-in is code wherever it is.
    ('my_world.py', True),
    ('plug_ins/my_model.py', True),
    ('launch/results/maps/helper.py', False),
  ],
)
def test_changes_outside_results_make_a_checkout_dirty(checkout, path, counts):
  results = checkout / 'launch' / 'results'
  clean = provenance.commit_outside(results)
  assert len(clean) == 40
  assert provenance.is_clean(clean)
  assert provenance.uncommitted(results) == []
  (checkout / path).parent.mkdir(exist_ok=True)
  (checkout / path).write_text('2\n')
  assert provenance.uncommitted(results) == [path] * counts
  result = provenance.commit_outside(results)
  assert result == clean + '-dirty' * counts
  assert provenance.is_clean(result) != counts


def test_plug_ins_that_git_does_not_hold_count(checkout, tmp_path_factory):
  results = checkout / 'launch' / 'results'
  (checkout / '.git' / 'info' / 'exclude').write_text('/runs/\n')
  elsewhere = tmp_path_factory.mktemp('elsewhere') / 'my_world.py'
  ignored = checkout / 'runs' / 'my_model.py'
  ignored.parent.mkdir()
  for path in (ignored, elsewhere):
    path.write_text('1\n')
  assert provenance.uncommitted(results) == []
  assert provenance.uncommitted(results, [checkout / 'wm' / 'a.py']) == []
  code = [ignored, elsewhere, checkout / 'wm' / 'a.py']
  assert provenance.uncommitted(results, code) == sorted(
    ['runs/my_model.py', str(elsewhere)]
  )
  assert provenance.is_clean(provenance.commit_outside(results))
  assert not provenance.is_clean(provenance.commit_outside(results, code))


def test_changed_files_are_listed_in_order_and_removed_ones_too(checkout):
  (checkout / 'wm' / 'a.py').unlink()
  (checkout / 'wm' / 'a b ä.py').write_text('2\n')
  (checkout / 'README.md').write_text('2\n')
  expected = ['README.md', 'wm/a b ä.py', 'wm/a.py']
  assert provenance.uncommitted(checkout / 'launch') == expected
  # A folder elsewhere, or the whole checkout, leaves out nothing.
  assert provenance.uncommitted(checkout.parent / 'none') == expected
  assert provenance.uncommitted(checkout) == expected


def test_without_a_checkout_nothing_is_known(tmp_path, monkeypatch):
  monkeypatch.setattr(provenance, '_ROOT', tmp_path)
  assert provenance.commit() is None
  assert provenance.commit_outside(tmp_path) is None
  assert provenance.uncommitted(tmp_path) is None
  assert not provenance.is_clean(None)
