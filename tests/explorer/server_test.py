"""The explorer's application: what it answers, and whom."""

import itertools
import json
import signal
import subprocess
import sys
import types
import urllib.error
import urllib.request
from concurrent import futures

import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.core import registry
from wm.explorer import server, views

testclient = pytest.importorskip('starlette.testclient')

TOKEN = 'secret'
CITY = 'maps(rows=4, columns=5)'
HOSTILE = '</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope='module')
def client():
  place = registry.make('world', CITY)
  loaded = {
    name: wm.load_predictor('oracle()', place) for name in ('oracle', HOSTILE)
  }
  accept = registry.make('accept', 'epsilon(0.01)')
  app = server.application(views.Explorer(place, loaded, accept), TOKEN, 1234)
  with testclient.TestClient(app, base_url='http://127.0.0.1:1234') as made:
    yield made


def test_it_answers(client):
  page = client.get(f'/{TOKEN}/')
  assert page.status_code == 200
  assert "script-src 'nonce-" in page.headers['content-security-policy']
  walk = client.post(f'/{TOKEN}/walk', json={'tokens': [11, 12]})
  assert walk.status_code == 200
  assert set(walk.json()['models']) == {'oracle', HOSTILE}


def test_a_hostile_name_is_no_part_of_the_page(client):
  assert '<img' not in client.get(f'/{TOKEN}/').text


@pytest.mark.parametrize(
  ('token', 'headers'),
  [
    ('stale', {}),
    (TOKEN, {'Host': 'evil.example'}),
    (TOKEN, {'Host': '127.0.0.1:9'}),
    (TOKEN, {'Origin': 'http://evil.example'}),
    (TOKEN, {'Origin': 'null'}),
  ],
)
def test_others_are_refused(client, token, headers):
  for answer in (
    client.get(f'/{token}/', headers=headers),
    client.post(f'/{token}/walk', json={'tokens': [11]}, headers=headers),
  ):
    assert answer.status_code == 403
    assert 'vocab' not in answer.text


@pytest.mark.parametrize(
  ('view', 'body', 'status'),
  [
    ('nothing', '{}', 404),
    ('walk', '{', 400),
    ('walk', '[]', 400),
    ('walk', json.dumps({'tokens': [[1]]}), 400),
    ('apart', json.dumps({'tokens': [11], 'second': [{'a': 1}]}), 400),
    ('walk', json.dumps({'tokens': [2**70]}), 400),
    ('walk', '[' * 5000, 400),
    ('walk', ' ' * 70_000, 413),
    ('walk', json.dumps({'tokens': ['x']}), 422),
    ('walk', json.dumps({'tokens': None}), 422),
    ('follow', json.dumps({'tokens': [11], 'model': 'none'}), 422),
    ('follow', json.dumps({'tokens': [11], 'seed': 1e99}), 422),
    ('twins', json.dumps({'tokens': [11, 12], 'seed': 'x'}), 422),
    ('patch', json.dumps({'tokens': [11, 12], 'model': 'oracle'}), 404),
    ('read', json.dumps({'model': ['x']}), 422),
  ],
)
def test_bad_requests_are_answered_in_a_line(client, view, body, status):
  answer = client.post(f'/{TOKEN}/{view}', content=body)
  assert answer.status_code == status
  error = answer.json()['error']
  assert error
  assert '\n' not in error


def test_ten_tabs_at_once_get_their_own_answers():
  place = registry.make('world', CITY)
  small = 'transformer(layers=2, width=32)'
  loaded = {'m': wm.load_predictor(small, place, checkpoint='none')}
  accept = registry.make('accept', 'epsilon(0.01)')
  sequences = place.sample(10, 0)
  rows = [
    row[:size].tolist()
    for row, size in zip(sequences.tokens, sequences.lengths, strict=True)
  ]

  def answers(client, row):
    asked = [{'tokens': row[:k]} for k in range(2, min(len(row), 8))]
    views = [client.post(f'/{TOKEN}/walk', json=query) for query in asked]
    twins = client.post(f'/{TOKEN}/twins', json={'tokens': row[:3], 'seed': 1})
    return [*(view.json() for view in views), twins.json()]

  results = []
  for workers in (10, 1):
    app = server.application(views.Explorer(place, loaded, accept), TOKEN)
    with (
      testclient.TestClient(app, base_url='http://127.0.0.1') as client,
      futures.ThreadPoolExecutor(workers) as pool,
    ):
      tasks = [pool.submit(answers, client, row) for row in rows]
      results.append([task.result() for task in tasks])
  together, alone = results
  for view, other in zip(
    itertools.chain(*together), itertools.chain(*alone), strict=True
  ):
    assert view.get('boxes') == other.get('boxes')
    assert view.keys() == other.keys()
    # Decoded from elsewhere: the last bits may differ.
    first, second = (
      {row[0]: row[1] for row in answer['models']['m'].get('tokens', [])}
      for answer in (view, other)
    )
    assert first == pytest.approx(second, abs=1e-5)


def test_every_error_of_the_caller_is_a_line(tmp_path):
  with pytest.raises(core.InputError, match='expected 1 to 4'):
    wm.explore(['oracle()'] * 5, CITY)
  with pytest.raises(core.InputError, match='no field of a view'):
    wm.explore('oracle()', CITY, fragment='at_home=1')
  with pytest.raises(core.InputError, match='no model is named'):
    wm.explore('nothing()', CITY)
  with pytest.raises(core.InputError):
    wm.explore(tmp_path)


def test_a_page_is_served_and_ended():
  page = wm.explore(['oracle()', 'oracle()'], CITY, fragment='prefix=11')
  assert page.url.endswith('/#prefix=11')
  assert page.url.startswith('http://127.0.0.1:')
  assert page.url in page._repr_html_()
  with urllib.request.urlopen(page.url) as answer:
    assert 'oracle (2)' in answer.read().decode()
  port = int(page.url.split(':')[2].split('/')[0])
  with pytest.raises(core.InputError, match='cannot be used'):
    wm.explore('oracle()', CITY, port=port)
  page.stop()
  with pytest.raises(urllib.error.URLError, match='refused'):
    urllib.request.urlopen(page.url)


def test_colab_shows_the_page_through_its_proxy(monkeypatch):
  calls = []
  output = types.SimpleNamespace(
    serve_kernel_port_as_iframe=lambda port, **more: calls.append((port, more))
  )
  colab = types.SimpleNamespace(output=output)
  monkeypatch.setitem(sys.modules, 'google.colab', colab)
  page = wm.explore('oracle()', CITY)
  assert page._repr_html_().startswith('<iframe src="http://127.0.0.1:')
  assert calls == []
  page.stop()
  monkeypatch.setenv('COLAB_RELEASE_TAG', 'release-colab')
  page = wm.explore('oracle()', CITY, fragment='prefix=11')
  assert page._repr_html_() == ''
  ((port, more),) = calls
  path = more['path']
  assert page.url == f'http://127.0.0.1:{port}{path}'
  assert path.endswith('/#prefix=11')
  assert more['height'] == '820'
  # The proxy names itself, and the browser the proxy.
  headers = {'Host': 'x.colab.example', 'Origin': 'https://x.colab.example'}
  address = f'http://127.0.0.1:{port}{path.split("#")[0]}walk'
  asked = urllib.request.Request(address, b'{"tokens": [11]}', headers)
  with urllib.request.urlopen(asked) as answer:
    assert json.load(answer)['tokens'] == [11]
  page.stop()


def test_the_program_takes_no_untrained_model_unasked():
  flags = f'--world={CITY}', '--model=transformer', '--nobrowser'
  line = binaries.refused('explore', *flags)
  assert 'expected --run=FOLDER, or --checkpoint=none' in line


@pytest.mark.process
def test_the_program_ends_by_ctrl_c(tmp_path):
  command = [
    *(sys.executable, f'{binaries.LAUNCH}/explore.py', '--nobrowser'),
    *(f'--world={CITY}', '--model=oracle()'),
  ]
  with subprocess.Popen(
    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    url = process.stdout.readline().strip()
    try:
      with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
    finally:
      process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
  assert process.returncode == 130, err
