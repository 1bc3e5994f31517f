"""The explorer's page in a real browser."""

import pathlib
import shutil

import pytest

import wm
from wm.core import registry
from wm.explorer import page as explore
from wm.explorer import views

sync_api = pytest.importorskip('playwright.sync_api')
BROWSER = shutil.which('chromium') or shutil.which('google-chrome')
pytestmark = [
  pytest.mark.process,
  pytest.mark.skipif(BROWSER is None, reason='no chromium here'),
]

CITY = 'maps(rows=4, columns=5)'
QUIET = [
  *('--no-sandbox', '--disable-gpu', '--disable-background-networking'),
  *('--disable-component-update', '--disable-sync', '--no-first-run'),
]


@pytest.fixture(scope='module')
def browser():
  with sync_api.sync_playwright() as playwright:
    started = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
    yield started
    started.close()


@pytest.fixture(scope='module')
def url():
  noisy = 'noisy_oracle(wrong=0.1, by="prefix")'
  page = wm.explore(
    [wm.load_predictor(noisy, CITY, name='<b>noisy'), 'oracle()'], CITY
  )
  yield page.url
  page.stop()


@pytest.fixture
def page(browser, url):
  opened = browser.new_page(viewport={'width': 1280, 'height': 900})
  errors = []
  opened.on('pageerror', lambda error: errors.append(str(error)))
  opened.goto(url)
  opened.wait_for_selector('#models .card')
  yield opened
  assert errors == []
  opened.close()


def prefix(page) -> list[str]:
  return page.locator('#prefix button').all_inner_texts()


def steps(page, num: int) -> None:
  page.wait_for_selector(f'#prefix button:nth-child({num})')


def test_it_walks_by_list_typing_and_the_map(page):
  page.click('#random')
  steps(page, 1)
  page.click('#random')
  steps(page, 2)
  page.click('[data-model="oracle"] .tokens button')
  steps(page, 3)
  page.click('#follow button:last-child')
  steps(page, 4)
  before = prefix(page)
  token = page.locator('[data-model="oracle"] .tokens b').first.inner_text()
  page.fill('#text', token)
  page.press('#text', 'Enter')
  steps(page, 5)
  assert prefix(page) == [*before, token]
  page.click('#undo')
  page.wait_for_selector('#prefix button:nth-child(5)', state='detached')
  assert prefix(page) == before


def test_the_map_is_clicked(page):
  for number in range(1, 4):  # Origin, destination, direction.
    target = page.locator('.target').first
    token = target.get_attribute('data-tokens')
    target.click()
    steps(page, number)
    assert prefix(page)[-1] == token


def test_a_link_restores_the_view(page, browser):
  for k in range(4):
    page.click('#random')
    steps(page, k + 1)
  page.click('#tab-apart')
  page.click('#other')
  page.wait_for_selector('[data-apart] tr:nth-child(2)')
  other = browser.new_page()
  other.goto(page.url)
  steps(other, 4)
  assert prefix(other) == prefix(page)
  assert other.locator('[aria-selected=true]').inner_text() == 'Two places'
  filled = other.get_by_label('Prefix of the other place').input_value()
  assert len(filled.split()) >= 2
  other.close()


def test_a_worst_trial_is_one_click_away(browser, tmp_path):
  name = 'noisy_oracle(wrong=0.3, by="prefix")'
  wm.score(name, ['compression(trials=20)'], CITY, out=tmp_path / 'a')
  place = registry.make('world', CITY)
  groups = explore.worst_trials('a', tmp_path / 'a', place)
  loaded = {'a': wm.load_predictor(name, place)}
  accept = registry.make('accept', 'epsilon(0.01)')
  served = explore.ExplorerPage(
    views.Explorer(place, loaded, accept, 0, groups), 0
  )
  page, errors = browser.new_page(), []
  page.on('pageerror', lambda error: errors.append(str(error)))
  page.goto(served.url)
  page.click('#tab-worst')
  page.click('[data-worst] summary')
  page.click('[data-worst] button')
  page.wait_for_selector('#trial')
  text = page.inner_text('#trial')
  assert ' '.join(prefix(page)) in text
  assert 'trial=shown' in page.url
  other = browser.new_page()
  other.goto(page.url)
  other.wait_for_selector('#trial')
  assert other.inner_text('#trial') == text
  assert errors == []
  other.close()
  page.close()
  served.stop()


def test_a_board_is_clicked_and_fits_a_phone(browser):
  served = wm.explore('oracle()', 'othello(size=6)')
  page = browser.new_page(viewport={'width': 400, 'height': 800})
  page.goto(served.url)
  page.wait_for_selector('[data-legal] button')
  legal = page.locator('[data-legal] button').first.inner_text()
  page.click(f'.target[data-tokens="{legal}"]')
  page.wait_for_selector('#prefix button')
  assert prefix(page) == [legal]
  width = page.evaluate('document.documentElement.scrollWidth')
  assert width <= 400
  page.close()
  served.stop()


def test_a_stale_address_and_two_tabs(browser, url):
  first, second = browser.new_page(), browser.new_page()
  for tab in (first, second):
    tab.goto(url)
    tab.wait_for_selector('#random')
  first.click('#random')
  second.click('#random')
  steps(first, 1)
  steps(second, 1)
  token = url.rstrip('/').rsplit('/', 1)[1]
  first.goto(url.replace(token, 'stale'))
  assert 'no longer valid' in first.inner_text('body')
  first.close()
  second.close()


def test_the_page_is_package_data():
  root = pathlib.Path(wm.__file__).parent
  assert (root / 'explorer/templates/explorer.html').is_file()
