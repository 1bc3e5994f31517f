"""A row for each model."""

from wm.language import pages


def page(logs):
  rows = [
    {
      'model': log.eval.model,
      'right': log.results.scores[0].metrics['mean'].value,
    }
    for log in logs
  ]
  table = pages.table('Right sums', rows)
  return pages.AnswersPage(
    'Sums', f'{len(rows)} models.', [table], (), {}, {'sums': rows}
  )
