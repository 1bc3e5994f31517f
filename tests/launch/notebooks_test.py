"""Notebooks: they are kept with the outputs of their scripts' cells."""

import ast

import pytest

pytest.importorskip('ipykernel', reason='the extra notebooks is not installed')
notebooks = pytest.importorskip('tests.notebooks')

LARGEST = 600_000  # Bytes of a notebook.
MAY_IMPORT = {
  'IPython',
  'networkx',
  'numpy',
  'pandas',
  'pathlib',
  'tempfile',
  'wm',
}
every = pytest.mark.parametrize('name', notebooks.NAMES)


def test_every_notebook_is_tested():
  assert len(notebooks.NAMES) == 5
  paths = notebooks.FOLDER.glob('*.ipynb')
  assert sorted(path.stem for path in paths) == notebooks.NAMES


@every
def test_a_notebook_has_the_outputs_of_its_script(name):
  script, kept = notebooks.script(name), notebooks.kept(name)
  again = f'run: python -m tests.notebooks {name}'
  assert notebooks.digest(kept) == notebooks.digest(script), again
  hashed = kept.metadata['wm']['source_sha256']
  assert hashed == notebooks.digest(script), again
  notebooks.check(kept.cells)
  assert (notebooks.FOLDER / f'{name}.ipynb').stat().st_size < LARGEST


def test_an_output_of_another_script_is_refused():
  script = notebooks.script('tour')
  before = notebooks.digest(script)
  script.cells[-1].source += '\n'
  assert notebooks.digest(script) != before


@every
def test_they_use_the_library_only(name):
  source = (notebooks.FOLDER / f'{name}.py').read_text()
  cells = notebooks.script(name).cells
  first = next(c for c in cells if c.cell_type == 'code')
  assert first.source.startswith('# Where wm is not installed')
  assert '!git clone' in first.source
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      assert {a.name.split('.')[0] for a in node.names} <= MAY_IMPORT
    elif isinstance(node, ast.ImportFrom):
      assert node.module.split('.')[0] in MAY_IMPORT


def run(name: str, folder) -> None:
  """Executes a notebook anew; each cell must run to its end."""
  notebook = notebooks.script(name)
  notebooks.execute(notebook, folder)
  notebooks.check(notebook.cells)


@pytest.mark.process
def test_a_notebook_runs(tmp_path):
  run('your_own_world', tmp_path)


@pytest.mark.slow
@every
def test_every_notebook_runs(name, tmp_path):
  run(name, tmp_path)
