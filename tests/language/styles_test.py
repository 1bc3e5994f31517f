"""The perfect solver in 24 styles of writing: every task scores it 1.000."""

import asyncio
import json

import inspect_ai
import pytest
from inspect_ai import model, solver
from inspect_ai.scorer import Target

from wm.language import providers, world_task
from wm.language.papers.cogeval import task as cogeval
from wm.language.papers.forces import task as forces
from wm.language.papers.mango import task as mango

assert providers.KnownAnswers  # It is registered by its import.
BEGINS = 'Answer: ', 'ANSWER: '


def body(text):
  """An answer of the solver without its keyword."""
  for begins in BEGINS:
    text = text.removeprefix(begins)
  return text.strip()


def _json(text):
  inside = (
    body(text).rstrip('.') if body(text) in ('Yes.', 'No.') else body(text)
  )
  if text[:1] in '[{' or inside[:1] in '[{':
    return f'```json\n{inside}\n```'
  return '```json\n' + json.dumps({'answer': inside}) + '\n```'


def _boxed(text):
  return f'Hence\n$$\\boxed{{\\text{{{body(text)}}}}}$$'


def _arrows(text):
  """Commas between names as LaTeX's arrows, where the answer is a path."""
  names = body(text).split(', ')
  plain = all(name.replace(' ', '').isalnum() for name in names)
  if len(names) < 2 or not plain:
    return text
  return 'Answer: $' + r' \rightarrow '.join(names) + '$'


def _bullets(text):
  """A list as bullets, where the answer is one."""
  items = body(text).split('; ')
  if len(items) < 2:
    return text
  return 'Answer:\n' + '\n'.join(f'- **{item}**' for item in items)


def _foreign(text):
  words = {'Yes.': 'Ja.', 'No.': 'Nein.'}
  words |= {'ANSWER: yes': 'Réponse : oui', 'ANSWER: no': 'Réponse : non'}
  if text.startswith('1. '):  # A list of yes and no.
    return text.replace('Yes.', words['Yes.']).replace('No.', words['No.'])
  return words.get(text, text)


def _quotes(text):
  """Strings of a list in curly quotes, else the answer."""
  if text[:1] == '[' and '"' not in text and "\\'" not in text:
    return text.replace("'", '’')
  return f'Answer: “{body(text)}”'


STYLES = {
  'plain': lambda a: a,
  'boxed': _boxed,
  'json': _json,
  'arrows': _arrows,
  'bullets': _bullets,
  'bold': lambda a: f'**Answer:** **{body(a)}**',
  'heading': lambda a: f'## Final Answer\n\n{body(a)}',
  'bold heading': lambda a: f'**Final answer**\n\n{body(a)}',
  'capitals': lambda a: f'FINAL ANSWER: {body(a)}',
  'no keyword': body,
  'false start': lambda a: (
    'Answer: I am not sure yet, let me think.\n\nSome steps later it is clear.'
    f'\n\nAnswer: {body(a)}'
  ),
  'restated question': lambda a: (
    f'You asked me to write the answer after "Answer:".\n\nAnswer: {body(a)}'
  ),
  'thinking tags': lambda a: f'<think>Answer: 1? No, yes.</think>\n{a}',
  'closing tag alone': lambda a: f'Answer: no. Hmm, wait.\n</think>\n\n{a}',
  'steps': lambda a: (
    'Let me go step by step.\n\n1. I read what is told.\n2. I look for what is '
    f'asked.\n3. I check it.\n\nAnswer: {body(a)}'
  ),
  'other language': _foreign,
  'politeness': lambda a: (
    f'Answer: {body(a)}\n\nPlease let me know if you need anything else!'
  ),
  'opening': lambda a: f'Sure, I am happy to help!\n\nAnswer: {body(a)}',
  'remark': lambda a: f'Answer: {body(a)}\n\nThis follows from what is told.',
  'curly quotes': _quotes,
  'answer tag': lambda a: f'<answer>{body(a)}</answer>',
  'fence': lambda a: f'Answer:\n```\n{body(a)}\n```',
  'is': lambda a: f'Therefore, the final answer is: {body(a)}',
  'rule and emoji': lambda a: f'Done! 🎉\n\n---\n\nAnswer: {body(a)}\n\n---',
}


def _tasks(testdata):
  """Name -> (task, the score that is 1)."""
  metrics = (
    "compression(suffixes='world', k=1, samples=2, trials=4); "
    "next_token(states='drawn', num=4)"
  )
  folder = testdata / 'mango' / 'camera-ready-70.tar.gz'
  game = {'folder': str(folder), 'game': 905, 'budget': 0}
  game['tokenizer'] = 'estimate'
  city = 'maps(rows=3, columns=3)'
  yield 'world', world_task.world(city, metrics), 'right'
  yield ('choices', world_task.world('seating()', 'capability(num=4)'), 'right')
  small = {'graphs': 'n7line', 'domains': 'ordRooms,socialTies'}
  yield 'cogeval', cogeval.cogeval(**small), 'correct'
  yield 'forces', forces.forces('corrected', num=1, every=90), 'answered'
  if folder.exists():
    asked = {'setting': 'simple', 'num': 4, **game}
    yield 'destinations', mango.mango_destination(**asked), 'exact'
    yield 'routes', mango.mango_route(**asked), 'success'
    zork = {**game, 'game': 'zork1', 'last': 30}
    yield 'minigames', mango.mango_minigames(**zork), 'success'


@pytest.fixture(scope='module')
def answered(testdata, tmp_path_factory):
  """Name -> (samples that the solver answered, scorer, the score that is 1)."""
  folder = str(tmp_path_factory.mktemp('logs'))
  named = {name: (task, value) for name, task, value in _tasks(testdata)}
  logs = inspect_ai.eval(
    [task for task, _ in named.values()],
    model='wm/solver',
    log_dir=folder,
    display='none',
    score=False,
  )
  return {
    name: (log.samples, task.scorer[0], value)
    for log, (name, (task, value)) in zip(logs, named.items(), strict=True)
  }


def _state(sample, text):
  """A sample as if the solver had written a text."""
  return solver.TaskState(
    model=model.ModelName('wm/solver'),
    sample_id=sample.id,
    epoch=1,
    input=sample.input,
    messages=sample.messages,
    output=model.ModelOutput.from_content('wm/solver', text),
    metadata=sample.metadata,
  )


async def _scored(samples, scorer, wrap):
  scores = []
  for sample in samples:
    text = wrap(sample.output.completion)
    score = await scorer(_state(sample, text), Target(sample.target))
    scores.append((text, score))
  return scores


@pytest.mark.parametrize('style', STYLES)
def test_the_solver_is_perfect_in_every_style(answered, style):
  for name, (samples, scorer, value) in answered.items():
    for text, score in asyncio.run(_scored(samples, scorer, STYLES[style])):
      assert score.value[value] == 1, (name, text, score.answer)
