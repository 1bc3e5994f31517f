"""No sentence of others stands in the tree, and published prompts are read."""

import gzip
import json
import re
import string
import subprocess

import pytest

from wm.worlds.cognitive_graph import graphs
from wm.worlds.cognitive_graph import questions as graph_questions

RUN = 12  # Words in a row that are a quotation,
DIFFERENT = 7  # if as many of them differ: lists of nodes and moves repeat.
TEXTS = (
  *('.j2', '.md', '.toml', '.py', '.flags', '.json', '.jsonl', '.ipynb'),
  *('.txt', '.sh', '.html', '.js', '.cff', '.yaml'),
)
# Facts that a quotation may hold: nothing needs one so far.
EXCEPTIONS: tuple[str, ...] = ()
# Parts of a text that hold a value: places of templates, quoted names, lists.
_VALUES = re.compile(
  r'\{\{.*?\}\}|\{[\w.]*\}|\[[^\[\]]*\]|"[^"\n]{0,40}"', re.DOTALL
)
_WORD = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")
_NODES = {
  word
  for graph in graphs.GRAPHS
  for domain in graph_questions.DOMAINS
  for name in graph_questions.node_names(
    graph, domain, graph_questions.most_nodes(graph)
  ).values()
  for word in _WORD.findall(str(name).lower())
} | {
  'room',
  'rooms',
  'field',
  'fields',
  'node',
  'nodes',
  *string.ascii_lowercase,
}


def runs(text):
  """Runs of words, as they stand and without values; node names left out."""
  text = re.sub(r'-\n\s*', '', text.replace('\\n', ' '))
  for each in dict.fromkeys((text, _VALUES.sub(' ', text))):
    words = [w for w in _WORD.findall(each.lower()) if w not in _NODES]
    yield from zip(*(words[k:] for k in range(RUN)), strict=False)


@pytest.fixture(scope='module')
def others(testdata):
  """Run of words -> where others have it."""
  data = testdata
  papers = sorted((data.parent / 'papers').glob('[0-9]*.txt'))
  if not papers:
    pytest.skip(f'no texts of papers at {data.parent / "papers"}')
  texts = {path.name: path.read_text() for path in papers}
  for path in (data / 'orbits' / 'llm-prompts').glob('*.txt'):
    texts[f'orbits {path.name}'] = path.read_text()
  for row in rows(data / 'cogeval' / 'conversations_sample.jsonl.gz'):
    for role, text in row['messages']:
      if role != 'a':
        texts[text] = text
  for row in rows(data / 'mango' / 'example-answers-905.jsonl.gz'):
    texts[row.get('question', '')] = row.get('question', '')
  return {
    run: name
    for name, text in texts.items()
    for run in runs(text)
    if len(set(run)) >= DIFFERENT
  }


def rows(path):
  """Objects of packed JSON lines; the test is skipped where there are none."""
  if not path.exists():
    pytest.skip(f'no {path}')
  with gzip.open(path, 'rt', encoding='utf-8') as lines:
    return [json.loads(line) for line in lines]


def quoted(text, others):
  """Words that a text has in common with others, and with whom."""
  return [
    (' '.join(run), others[run][:40])
    for run in runs(text)
    if run in others and not any(fact in ' '.join(run) for fact in EXCEPTIONS)
  ]


def test_no_file_of_the_tree_quotes_others(others, root):
  listed = subprocess.run(
    ['git', 'ls-files'], cwd=root, capture_output=True, text=True
  )
  if listed.returncode:
    pytest.skip(f'{root} is no checkout of git')
  paths = [
    root / name
    for name in listed.stdout.splitlines()
    if name.endswith(TEXTS) and '/results/' not in name
  ]
  result = {
    str(path.relative_to(root)): quotations[:3]
    for path in paths
    if path.exists()
    and (quotations := quoted(path.read_text(errors='replace'), others))
  }
  assert len(paths) > 500
  assert not result


def test_a_quotation_is_found_and_data_are_none(others, testdata):
  words = (testdata / 'orbits/llm-prompts/0.txt').read_text().split()
  for first, last, many in ((0, 14, True), (0, 8, False), (60, 120, False)):
    text = '## Answer! **' + ' '.join(words[first:last]).upper() + '** the end'
    assert bool(quoted(text, others)) == many
  rooms = 'room 1 is connected to room 2, room 3, and room 4. ' * 9
  assert not quoted(rooms, others)
