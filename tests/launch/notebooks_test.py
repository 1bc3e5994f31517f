"""Notebooks: scripts and .ipynb are equal, and every one runs to its end."""

import ast

import pytest

NAMES = (
  'tour',
  'your_own_model',
  'your_own_world',
  'games_and_states',
  'reading_a_report',
)
SECONDS = 60  # That a notebook may take in all.
MAY_IMPORT = {
  'IPython',
  'matplotlib',
  'networkx',
  'numpy',
  'pandas',
  'pathlib',
  'tempfile',
  'wm',
}

jupytext = pytest.importorskip(
  'jupytext', reason='the extra notebooks is not installed'
)


def both(root, name: str) -> tuple:
  """The notebook of a script, and the one that is kept beside it."""
  folder = root / 'launch' / 'notebooks'
  return jupytext.read(folder / f'{name}.py'), jupytext.read(
    folder / f'{name}.ipynb'
  )


def test_every_notebook_is_tested(root):
  folder = root / 'launch' / 'notebooks'
  for suffix in ('py', 'ipynb'):
    found = {path.stem for path in folder.glob(f'*.{suffix}')}
    assert found == set(NAMES), suffix


@pytest.mark.parametrize('name', NAMES)
def test_script_and_notebook_are_equal(root, name):
  script, kept = both(root, name)
  for given in (script, kept):
    assert given.cells
  assert [(c.cell_type, c.source) for c in kept.cells] == [
    (c.cell_type, c.source) for c in script.cells
  ], f'run: jupytext --to ipynb launch/notebooks/{name}.py'
  assert not any(c.get('outputs') for c in kept.cells)


@pytest.mark.parametrize('name', NAMES)
def test_they_use_the_library_only(root, name):
  source = (root / 'launch' / 'notebooks' / f'{name}.py').read_text()
  first = next(c for c in both(root, name)[1].cells if c.cell_type == 'code')
  assert first.source.startswith('# Where wm is not installed')
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      assert {a.name.split('.')[0] for a in node.names} <= MAY_IMPORT
    elif isinstance(node, ast.ImportFrom):
      assert node.module.split('.')[0] in MAY_IMPORT


@pytest.mark.parametrize('name', NAMES)
def test_it_runs(root, name, tmp_path, monkeypatch):
  client = pytest.importorskip('nbclient')
  pytest.importorskip('ipykernel')
  monkeypatch.setenv('PYTHONPATH', str(root))
  monkeypatch.setenv('MPLBACKEND', 'module://matplotlib_inline.backend_inline')
  notebook = both(root, name)[1]
  client.NotebookClient(
    notebook,
    timeout=SECONDS,
    kernel_name='python3',
    resources={'metadata': {'path': str(tmp_path)}},
  ).execute()
  shown = [
    kind
    for cell in notebook.cells
    for output in cell.get('outputs', [])
    for kind in output.get('data', {})
  ]
  assert {'image/png', 'text/plain'} <= set(shown)
