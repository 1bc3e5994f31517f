"""Installs wm: `pip install -e .[test]`."""

import pathlib

import setuptools
from setuptools.command import build_py


class BuildPy(build_py.build_py):
  """Also copies the programs, and the flagfiles and numbers of the papers."""

  def run(self) -> None:
    """Builds the packages; an editable install reads the checkout's files."""
    super().run()
    if self.editable_mode:
      return
    paths = [*pathlib.Path('launch').glob('*.py')]
    for kind in ('flags/**/*.flags', 'flags/**/*.json', 'examples/*'):
      paths += pathlib.Path('launch').glob(kind)
    for path in sorted(paths):
      if path.is_file() and 'results' not in path.parts:
        target = pathlib.Path(self.build_lib, 'wm', path)
        self.mkpath(str(target.parent))
        self.copy_file(str(path), str(target))


# Read, not imported: wm needs packages that may not be installed yet.
_TEXT = pathlib.Path('wm/__init__.py').read_text(encoding='utf-8')
VERSION = _TEXT.partition("__version__ = '")[2].partition("'")[0]

setuptools.setup(
  name='wm-metrics',  # The name wm is another project's; the import is wm.
  version=VERSION,
  description='Does this sequence model have a world model, and how good?',
  long_description=pathlib.Path('README.md').read_text(encoding='utf-8'),
  long_description_content_type='text/markdown',
  license='Apache-2.0',
  classifiers=[
    'Intended Audience :: Science/Research',
    'Programming Language :: Python :: 3 :: Only',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
  python_requires='>=3.11',
  cmdclass={'build_py': BuildPy},
  packages=setuptools.find_packages(include=['wm', 'wm.*']),
  # Tasks and providers of language models, found by Inspect.
  entry_points={
    'console_scripts': ['wm = wm.__main__:main'],
    'inspect_ai': ['wm = wm.language.registry'],
  },
  package_data={
    'wm': ['py.typed', '*.pyi'],
    'wm.explorer': ['templates/*'],
    'wm.language.papers': ['*/*.j2', '*/*.toml'],
    'wm.language.answers': ['*.toml'],
    'wm.recon': ['templates/*'],
    'wm.reporting': ['templates/*'],
    'wm.worlds': ['*.j2', '*/*.j2'],
  },
  install_requires=[
    'jax>=0.10.2',
    'flax>=0.12.8',
    'optax>=0.2.8',
    'orbax-checkpoint>=0.12.8',
    'chex>=0.1.92',
    'numba>=0.68',
    'numpy>=2.2',
    'networkx>=3.6',
    'scipy>=1.13',
    'absl-py>=2.3.1',
    'altair>=6.1',
    'jinja2>=3.1',
    'matplotlib>=3.10',
    'pandas>=2.2',
    'pyarrow>=17',
    'tqdm>=4.66',
    'vl-convert-python>=1.9',
  ],
  extras_require={
    'automata': ['pydot>=4.0'],
    'cloud': ['universal_pathlib>=0.3', 's3fs>=2025.3', 'gcsfs>=2025.3'],
    'explore': ['starlette>=0.46', 'uvicorn>=0.34'],
    'games': ['zstandard>=0.23'],
    'language': [
      'inspect_ai>=0.3.200',
      'openai>=3.54',
      'patsy>=1.0',
      'rapidfuzz>=3.14',
      'statsmodels>=0.15',
    ],
    'local': ['xllamacpp>=2026.10'],
    'maps': ['osmnx>=2.0'],
    'site': ['mkdocs-material>=9.6', 'mkdocstrings[python]>=1.0'],
    'notebooks': ['jupytext>=1.16', 'nbclient>=0.10', 'ipykernel>=6.29'],
    'tpu': ['jax[tpu]>=0.10.2'],
    'torch': ['torch>=2.6', 'transformers>=5.0'],
    'bench': ['aalpy>=2.0', 'rustworkx>=0.15', 'pgx>=2.6', 'rust-chess>=0.4'],
    'test': [
      'aalpy>=2.0',
      'pytest>=8',
      'pytest-xdist>=3.6',
      'setuptools>=70.1',
      'hypothesis>=6.100',
      'ruff>=0.8',
      'mypy>=2.4',
      'chess>=1.11',
      'pydot>=4.0',
      'zstandard>=0.23',
      'jupytext>=1.16',
      'nbclient>=0.10',
      'ipykernel>=6.29',
      'mkdocs-material>=9.6',
      'mkdocstrings[python]>=1.0',
      'inspect_ai>=0.3.200',
      'openai>=3.54',
      'patsy>=1.0',
      'rapidfuzz>=3.14',
      'statsmodels>=0.15',
      'starlette>=0.46',
      'uvicorn>=0.34',
      'httpx2>=2.16',
      'playwright>=1.50',
      'universal_pathlib>=0.3',
      's3fs>=2025.3',
      'moto[s3]>=5.1',
      'flask>=3.1',
      'flask-cors>=6.0',
    ],
  },
)
