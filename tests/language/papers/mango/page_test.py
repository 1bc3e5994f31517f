"""Tables and figures from scored answers, old and new."""

import re

import pytest

from wm.language import pages
from wm.language.papers.mango import questions, recorded
from wm.language.papers.mango import report as reports
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import Score
from wm.worlds import text_game

GAMES = '905', 'zenon', 'huntdark', 'library', 'moonlit', 'snacktime', 'loose'
HOTEL = text_game.hotel()


@pytest.fixture(scope='module')
def rescored(real):
  return recorded.rescore(real('mango'), GAMES)


def cells(table):
  """Rows of a table, by head."""
  return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def answered(model, shares, kind='destination', failure='empty'):
  """Rows of a model that is right, half right, or gives no answer."""
  result = []
  for asked, share in zip(
    questions.questions(HOTEL, kind), shares, strict=False
  ):
    score = (
      Score(failure)
      if share is None
      else Score('', share, reasoning=share == 1)
    )
    result.append(scoring.answer_row(model, asked, score))
  return result


def test_ill_formed_answers_count_or_are_left_out():
  sample = scoring.answer_frame(answered('a', [1, None, None, 1]))
  results = cells(reports.REPORT.table('success', sample, title='Success'))
  asked = sum(int(row['asked']) for row in results)
  formed = sum(int(row['well-formed']) for row in results)
  assert (asked, formed) == (4, 2)
  for row in results:
    if int(row['well-formed']):
      share = int(row['well-formed']) / int(row['asked'])
      assert row['success, micro'].startswith('1.000')
      assert row['ill-formed are 0'].startswith(f'{share:.3f}')
  ill = cells(reports.ill_formed_table(sample))[0]
  assert (ill['per game'], ill['ill-formed']) == ('4.00', '2.00')
  assert ill['causes'] == 'empty 2'
  assert scoring.FAILURES['empty'] in reports.ill_formed_table(sample).note


def test_what_the_paper_prints_is_read():
  pairs = reports.REPORT.published['table1']['destination, easy']
  assert pairs[0] == ['GPT-4', 'GPT-3.5', 0.86, 0.58]
  for rows_of in reports.REPORT.published['table4'].values():
    if isinstance(rows_of, dict):
      assert all(ill < asked for asked, ill in rows_of.values())
  # All questions of the maps of July 2023, by game.
  most = reports.REPORT.published['table4']['destination']['Llama-2-S'][0]
  assert round(most * 53) == 21_046


def test_a_page_needs_no_maps():
  result = reports.answers_page(scoring.answer_frame(answered('a', [1, None])))
  assert [*result.rows] == ['answers']


@pytest.mark.slow
def test_recorded_answers_are_a_page(rescored, tmp_path):
  titles = [table.title for table in rescored.tables]
  assert len(set(titles)) == len(titles) == 5
  assert len(rescored.pictures) == 4
  plotted = rescored.pictures
  assert all(p.chart and p.image.startswith(b'<svg') for p in plotted)
  written = pages.save(rescored, tmp_path).read_text(encoding='utf-8')
  assert 'Success over well-formed answers' in written
  assert (tmp_path / 'answers.csv').stat().st_size > 10_000


# The paper's figures and the words of their captions; a figure of another
# number, or of a number that the paper has not, would send readers astray.
CAPTIONS = {
  2: 'success',
  3: 'success game by game',
  4: 'minigames',
  5: 'reasoning',
  6: "reasoning by the paper's rule, game by game",
  7: 'success',
  8: 'reasoning',
}


def test_figures_have_the_papers_numbers():
  numbered = {}
  for caption in reports.REPORT.declared['figures'].values():
    _, _, behind = caption.rpartition('(figure ')
    for number in re.findall(r'\d+', behind) if behind else ():
      assert CAPTIONS[int(number)] in caption.lower()
      numbered[int(number)] = caption
  assert set(numbered) == set(CAPTIONS)
