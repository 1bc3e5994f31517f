"""The perfect solver in 84 styles of writing: every task scores it 1.000.

In 60 of them, the wrappers, an answer may also be unread; it is never wrong.
"""

import asyncio
import json
import math

import inspect_ai
import pytest
from inspect_ai import model, solver
from inspect_ai.scorer import Target

from wm.language import providers, world_questions, world_task
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


def _verdict(text):
  """True of yes, False of no, None of another answer."""
  return {'yes': True, 'no': False}.get(body(text).lower().rstrip('.'))


def _said(yes, no):
  """Other words for yes and no, in lists too."""

  def wrap(text, names):
    del names
    if text.startswith('1. '):
      return text.replace('Yes.', yes).replace('No.', no)
    verdict = _verdict(text)
    return text if verdict is None else (yes if verdict else no)

  return wrap


def _items(text):
  return body(text).split('; ')


def _judged(form, good, bad, sep='\n'):
  """A verdict beside each candidate, where the answer is a list of them."""

  def wrap(text, names):
    if not names:
      return text
    taken = _items(text)
    lines = [
      form.format(name=name, verdict=good if name in taken else bad)
      for name in names
    ]
    return 'Answer:\n' + sep.join(lines)

  return wrap


def _parts(text, names):
  """The names of a path or a list; () where the answer is another."""
  parts = _items(text) if names else body(text).split(', ')
  plain = all(part.replace(' ', '').isalnum() for part in parts)
  return parts if len(parts) > 1 and plain else ()


def _joined(sep):
  """Names with another separator, where the answer is a path or a list."""

  def wrap(text, names):
    if not (parts := _parts(text, names)):
      return text
    return 'Answer: ' + sep.join(parts)

  return wrap


def _lines(form):
  """Names on lines of their own."""

  def wrap(text, names):
    if not (parts := _parts(text, names)):
      return text
    lines = [
      form.format(n=n, name=x, circle=chr(0x245F + n))
      for n, x in enumerate(parts, 1)
    ]
    return 'Answer:\n' + '\n'.join(lines)

  return wrap


def _numbered(form):
  """A numbered list of yes and no in another form."""

  def wrap(text, names):
    del names
    if not text.startswith('1. '):
      return text
    words = [line.partition('. ')[2].rstrip('.') for line in text.split('\n')]
    return '\n'.join(form.format(n=n, word=w) for n, w in enumerate(words, 1))

  return wrap


def _around(form):
  def wrap(text, names):
    del names
    return form.format(text=text, body=body(text))

  return wrap


def _called(key):
  """The answer as arguments of a tool."""

  def wrap(text, names):
    verdict = _verdict(text)
    value = body(text) if verdict is None else verdict
    if names:
      value = _items(text)
    if text[:1] in '[{' or text.startswith('1. ') or '[' in body(text)[:1]:
      return text
    return json.dumps({'name': 'submit', 'arguments': {key: value}})

  return wrap


def _table(text, names):
  if not names:
    return text
  taken = _items(text)
  rows = [f'| {x} | {"yes" if x in taken else "no"} |' for x in names]
  return 'Answer:\n| candidate | possible |\n|---|---|\n' + '\n'.join(rows)


def _sections(text, names):
  others = [name for name in names if name not in _items(text)]
  if not others:
    return text
  return f'Possible: {body(text)}\nNot possible: {"; ".join(others)}'


def _remark(form):
  """A remark about a candidate that is not in the list."""

  def wrap(text, names):
    others = [name for name in names if name not in _items(text)]
    return text + form.format(name=others[0]) if others else text

  return wrap


CHANNEL = (
  '<|channel|>analysis<|message|>yes? no?<|end|><|start|>assistant'
  '<|channel|>final<|message|>{text}'
)
WRAPPERS = {
  'channels': _around(CHANNEL),
  'scratchpad': _around('<scratchpad>no, yes</scratchpad>{text}'),
  'analysis tags': _around('<analysis>1, 2</analysis>\n{text}'),
  'think in brackets': _around('[THINK]no[/THINK]{text}'),
  'seed think': _around('<seed:think>Answer: 1</seed:think>{text}'),
  'final tag': _around('<final>{body}</final>'),
  'output tag': _around('<output>{body}</output>'),
  'check mark': _around('{text} \u2705'),
  'quote block': _around('> {text}'),
  'final colon': _around('Final answer: {body}'),
  'html bold': _around('Answer: <b>{body}</b>'),
  'chinese mark': _around('\u7b54\u6848\uff1a{body}'),
  'code': _around('Answer: `{body}`'),
  'next line': _around('Answer:\n{body}'),
  'reason behind': _around('{text}\nReason: this is what the text says.'),
  'confidence': _around('{text}\nConfidence: high'),
  'yaml': _around('```yaml\nanswer: {body}\n```'),
  'summary': _around('### Summary\n\nAll is told.\n\n### Answer\n\n{body}'),
  'struck': _around('Answer: ~~unknown~~ {body}'),
  'true': _said('true', 'false'),
  'True': _said('**True**', '**False**'),
  'valid': _said('Valid', 'Invalid'),
  'possible': _said('possible', 'not possible'),
  'impossible': _said('possible', 'impossible'),
  'legal': _said('Answer: legal', 'Answer: illegal'),
  'emoji': _said('\u2705', '\u274c'),
  'thumbs': _said('\U0001f44d', '\U0001f44e'),
  'chinese': _said('\u662f', '\u5426'),
  'chinese sentence': _said('\u662f\u7684\u3002', '\u4e0d\u662f\u3002'),
  'can': _said('\u53ef\u4ee5', '\u4e0d\u53ef\u4ee5'),
  'japanese': _said('\u306f\u3044', '\u3044\u3044\u3048'),
  'spanish': _said('S\u00ed.', 'No.'),
  'verdicts': _judged('{name}: {verdict}', 'possible', 'impossible'),
  'brackets': _judged('- {name} ({verdict})', 'yes', 'no'),
  'blocked': _judged('{name}: {verdict}', 'open', 'blocked', '; '),
  'not possible': _judged('{name} - {verdict}', 'possible', 'not possible'),
  'arrows to verdicts': _judged('{name} -> {verdict}', 'yes', 'no'),
  'crosses': _judged('{verdict} {name}', '\u2705', '\u274c'),
  'crosses behind': _judged('{name} {verdict}', '\u2714', '\u2718'),
  'checklist': _judged('- [{verdict}] {name}', 'x', ' '),
  'true and false': _judged('{name}: {verdict}', 'true', 'false'),
  'equals': _judged('{name} = {verdict}', 'valid', 'invalid'),
  'table': _table,
  'sections': _sections,
  'remark on another': _remark('\n\nNote: {name} is not possible.'),
  'another is blocked': _remark('\n{name} is blocked.'),
  'long arrows': _joined(' \u27f6 '),
  'double arrows': _joined(' => '),
  'bars': _joined(' | '),
  'slashes': _joined(' / '),
  'chinese commas': _joined('\u3001'),
  'semicolons': _joined('; '),
  'circled': _lines('{circle} {name}'),
  'ones': _lines('1. {name}'),
  'numbered lines': _lines('{n}. {name}'),
  'dashes': _lines('- {name}'),
  'q': _numbered('Q{n}: {word}'),
  'brackets around numbers': _numbered('({n}) {word}'),
  'tool call': _called('answer'),
  'tool call in camelCase': _called('finalAnswer'),
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
  yield (
    'choices',
    world_task.world('seating()', 'capability(num=4)'),
    'right',
  )
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


def _candidates(sample):
  """Names that a list may hold; () of other questions."""
  if sample.metadata.get('kind') != 'all_next':
    return ()
  setting, *_ = world_questions.restored(sample.metadata)
  world = world_questions.made_world(setting.world)
  return world.token_names(setting.style)[1:]


async def _scored(samples, scorer, wrap):
  scores = []
  for sample in samples:
    text = wrap(sample.output.completion, _candidates(sample))
    score = await scorer(_state(sample, text), Target(sample.target))
    scores.append((text, score))
  return scores


@pytest.mark.parametrize('style', STYLES)
def test_the_solver_is_perfect_in_every_style(answered, style):
  wrap = lambda text, names: STYLES[style](text)  # noqa: E731
  for name, (samples, scorer, value) in answered.items():
    for text, score in asyncio.run(_scored(samples, scorer, wrap)):
      assert score.value[value] == 1, (name, text, score.answer)


def _unread(score):
  """Is a reply counted as one without an answer?"""
  values = [score.value.get(name) for name in ('answered', 'well_formed')]
  outcome = (score.metadata or {}).get('outcome')
  right = score.value.get('right', 0.0)
  return 0 in values or outcome == 'no_answer' or math.isnan(right)


@pytest.mark.parametrize('wrapper', WRAPPERS)
def test_the_solver_is_perfect_or_unread_in_every_wrapper(answered, wrapper):
  for name, (samples, scorer, value) in answered.items():
    scored = asyncio.run(_scored(samples, scorer, WRAPPERS[wrapper]))
    for text, score in scored:
      perfect = score.value[value] == 1
      assert perfect or _unread(score), (name, text, score.answer)


def test_most_wrapped_answers_are_read(answered):
  read = total = 0
  for wrap in WRAPPERS.values():
    for samples, scorer, value in answered.values():
      for _, score in asyncio.run(_scored(samples, scorer, wrap)):
        read += score.value[value] == 1
        total += 1
  assert read > 0.95 * total


def test_there_are_84_styles():
  assert (len(STYLES), len(WRAPPERS)) == (24, 60)
  styled = {style('Answer: a, b') for style in STYLES.values()}
  assert len(styled) > 20
