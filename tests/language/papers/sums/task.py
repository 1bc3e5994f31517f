"""Inspect's task `wm/sums`."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import generate
from wm.language.papers.sums import score as scoring

from wm.runtime import pages

TEXTS = pages.macros('wm.language.papers.sums', 'prompt.md.j2')


@task
def sums(num: int = 3) -> Task:
  """Sums of small numbers."""
  return Task(
    dataset=MemoryDataset([sample(n, n + 1) for n in range(num)], name='sums'),
    solver=generate(),
    scorer=sums_scorer(),
    version=1,
  )


def sample(a, b):
  return Sample(
    id=f'{a}+{b}',
    input=TEXTS.question(a, b),
    target=str(a + b),
    metadata={'task': 'sums', 'sum': a + b},
  )


@scorer(metrics=[mean()])
def sums_scorer():
  async def score(state, target):
    value = scoring.read(state.output.completion)
    return Score(value=float(value == state.metadata['sum']), answer=str(value))

  return score


def known_answer(request):
  right = request.metadata['sum']
  return f'Answer: {0 if request.guesses else right}'
