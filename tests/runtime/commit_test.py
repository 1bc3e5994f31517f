"""Which files make a checkout dirty, in one made up for the purpose."""

import subprocess

import pytest

from wm.runtime import commit


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
  monkeypatch.setattr(commit, '_root', lambda: tmp_path)
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
  clean = commit.describe_outside(results)
  assert len(clean) == 40
  assert commit.is_clean(clean)
  assert commit.changed(results) == []
  (checkout / path).parent.mkdir(exist_ok=True)
  (checkout / path).write_text('2\n')
  assert commit.changed(results) == [path] * counts
  found = commit.describe_outside(results)
  assert found == clean + '-dirty' * counts
  assert commit.is_clean(found) != counts


def test_plug_ins_that_git_does_not_hold_count(checkout, tmp_path_factory):
  results = checkout / 'launch' / 'results'
  (checkout / '.git' / 'info' / 'exclude').write_text('/runs/\n')
  elsewhere = tmp_path_factory.mktemp('elsewhere') / 'my_world.py'
  ignored = checkout / 'runs' / 'my_model.py'
  ignored.parent.mkdir()
  for path in (ignored, elsewhere):
    path.write_text('1\n')
  assert commit.changed(results) == []
  assert commit.changed(results, [checkout / 'wm' / 'a.py']) == []
  code = [ignored, elsewhere, checkout / 'wm' / 'a.py']
  assert commit.changed(results, code) == sorted(
    ['runs/my_model.py', str(elsewhere)]
  )
  assert commit.is_clean(commit.describe_outside(results))
  assert not commit.is_clean(commit.describe_outside(results, code))


def test_changed_files_are_listed_in_order_and_removed_ones_too(checkout):
  (checkout / 'wm' / 'a.py').unlink()
  (checkout / 'wm' / 'a b ä.py').write_text('2\n')
  (checkout / 'README.md').write_text('2\n')
  expected = ['README.md', 'wm/a b ä.py', 'wm/a.py']
  assert commit.changed(checkout / 'launch') == expected
  # A folder elsewhere, or the whole checkout, leaves out nothing.
  assert commit.changed(checkout.parent / 'none') == expected
  assert commit.changed(checkout) == expected


def test_without_a_checkout_nothing_is_known(tmp_path, monkeypatch):
  monkeypatch.setattr(commit, '_root', lambda: tmp_path)
  assert commit.describe() is None
  assert commit.describe_outside(tmp_path) is None
  assert commit.changed(tmp_path) is None
  assert not commit.is_clean(None)
