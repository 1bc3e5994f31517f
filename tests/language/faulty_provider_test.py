"""A provider that fails in every way is counted by cause; nothing crashes."""

import contextlib
import dataclasses
import gc
import http.server
import json
import sys
import threading

import pytest

from wm import core
from wm.core import registry
from wm.language import provider
from wm.language import registry as known_answers
from wm.language.models import language

KEY = 'LOCAL_API_KEY'
GOOD = {
  'id': '1',
  'object': 'chat.completion',
  'created': 1,
  'model': 'm',
  'choices': [
    {
      'index': 0,
      'message': {'role': 'assistant', 'content': 'Yes.'},
      'finish_reason': 'stop',
    }
  ],
  'usage': {'prompt_tokens': 7, 'completion_tokens': 1, 'total_tokens': 8},
}


def _with(content, reason='stop'):
  message = {'role': 'assistant', 'content': content}
  choice = {'index': 0, 'message': message, 'finish_reason': reason}
  return GOOD | {'choices': [choice]}


# What the server says -> the cause that is counted; '' is an answer.
CAUSES = {
  'good': '',
  'limited': 'rate_limit',
  'broken': 'server_error',
  'half': 'bad_reply',
  'garbage': 'bad_reply',
  'nothing': 'bad_reply',
  'hangs up': 'no_connection',
  'empty': 'empty',
  'cut': 'cut_off',
  'filtered': 'refused',
  'refuses': 'refused',
  'huge': 'too_long',
  'nested': 'nothing',
  'null': 'empty',
}


class Faulty(http.server.BaseHTTPRequestHandler):
  """Does what the last word of the question says."""

  def log_message(self, *args):
    pass

  def do_POST(self):
    size = int(self.headers['Content-Length'])
    body = json.loads(self.rfile.read(size))
    output = body['messages'][-1]['content'].rpartition(': ')[2]
    self.server.asked.append(output)
    bodies = {
      'good': GOOD,
      'empty': _with(''),
      'null': _with(None),
      'cut': _with('Let me think about', 'length'),
      'filtered': _with('', 'content_filter'),
      'refuses': _with("I'm sorry, but I can't help with that."),
      'huge': _with('yes ' * 300_000),
      'nested': _with('[' * 10_000),
      'nothing': {},
    }
    status = {'limited': 429, 'broken': 500, 'key': 401, 'model': 404}
    status['too warm'] = 400
    if output == 'slow':
      self.server.over.wait(600)
    if output == 'hangs up':
      self.connection.close()
      return
    text = json.dumps(
      bodies.get(output, {'error': {'message': output}})
    ).encode()
    if output == 'garbage':
      text = b'\xff\xfe<html>'
    self.send_response(status.get(output, 200))
    self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(text)))
    self.end_headers()
    with contextlib.suppress(ConnectionError):  # Nobody waits any more.
      self.wfile.write(text[: len(text) // 2] if output == 'half' else text)


class Server(http.server.ThreadingHTTPServer):
  """Says nothing of a client that closes while it is read from."""

  def handle_error(self, request, client_address):
    if not isinstance(sys.exception(), ConnectionError):
      super().handle_error(request, client_address)


@pytest.fixture(scope='module')
def server():
  made = Server(('127.0.0.1', 0), Faulty)
  made.asked, made.over = [], threading.Event()
  thread = threading.Thread(target=made.serve_forever, daemon=True)
  thread.start()
  yield made
  made.over.set()
  made.shutdown()


@pytest.fixture
def settings(server, monkeypatch):
  monkeypatch.setenv(KEY, 'none')
  return language.Model(
    'openai-api/local/m',
    base_url=f'http://127.0.0.1:{server.server_port}/v1',
    retries=0,
    timeout=600,
    connections=20,
    args=(('max_retries', 0),),
  )


def _asked(settings, folder, words):
  """Answers to a question that ends in each of some words."""
  world = registry.make('world', 'maps(rows=3, columns=3)')
  settings = dataclasses.replace(settings, answers=str(folder))
  predictor = settings.predictor(world, 0)
  question = predictor.yes_no((1, 2), (3,))
  result = predictor.ask([question._replace(prompt=f'Q: {w}') for w in words])
  return result, predictor


def test_every_failure_has_a_cause(settings, server, tmp_path):
  results, predictor = _asked(settings, tmp_path, CAUSES)
  causes = dict(zip(CAUSES, (item.failure for item in results), strict=True))
  # A connection that ends early may be reset before its half is read.
  half = causes['half']
  assert half in ('bad_reply', 'no_connection')
  assert causes == CAUSES | {'half': half}
  assert results[0].value is True
  counted = predictor.diagnostics()[-1]
  assert f'bad_reply {2 + (half == "bad_reply")}' in counted
  # Answers that came are kept, also those that cannot be read.
  server.asked.clear()
  again, _ = _asked(settings, tmp_path, CAUSES)
  failures = dict(zip(CAUSES, (item.failure for item in again), strict=True))
  assert failures == CAUSES | {'half': failures['half']}
  lost = {'rate_limit', 'server_error', 'bad_reply', 'no_connection'}
  assert {*server.asked} == {w for w, cause in CAUSES.items() if cause in lost}


def test_an_error_without_a_name_is_told(settings, tmp_path):
  results, predictor = _asked(settings, tmp_path, ['too warm', 'good'])
  assert [item.failure for item in results] == [provider.UNNAMED, '']
  counted, lines = predictor.diagnostics()[-2:]
  assert counted == f'no answer: {provider.UNNAMED} 1'
  assert lines.startswith(f'the first {provider.UNNAMED}: ')
  assert 'too warm' in lines


def test_who_waits_too_long_is_given_up(settings, tmp_path):
  soon = dataclasses.replace(settings, timeout=1)
  result, predictor = _asked(soon, tmp_path, ['slow'])
  assert result[0].failure == 'timeout'
  assert predictor.diagnostics()[-1] == 'no answer: timeout 1'


@pytest.mark.parametrize(
  ('told', 'line'), [('key', 'key is refused'), ('model', 'no such model')]
)
def test_what_no_other_call_would_mend_ends_the_run(
  settings, tmp_path, told, line
):
  with pytest.raises(core.InputError, match=line):
    _asked(settings, tmp_path, [told])


@pytest.mark.parametrize(
  ('model', 'line'),
  [
    ('wm/sage', 'available: wm/solver'),
    ('nobody/m', 'nobody'),
    ('openai-api/unset/m', 'UNSET_API_KEY'),
  ],
)
def test_unknown_models_are_one_line(tmp_path, model, line, one_line):
  assert known_answers.providers  # They are known once they are imported.
  with one_line(line):
    _asked(language.Model(model), tmp_path, ['good'])


@pytest.mark.parametrize(
  'url',
  ['http://127.0.0.1:9/v1', 'http://127.0.0.1:99999/v1', 'nowhere', '\ud800'],
)
def test_nobody_listens(tmp_path, monkeypatch, url):
  monkeypatch.setenv(KEY, 'none')
  settings = language.Model(
    'openai-api/local/m',
    base_url=url,
    retries=0,
    timeout=600,
    args=(('max_retries', 0),),
  )
  with pytest.raises(core.InputError) as error:
    _asked(settings, tmp_path, ['good'] * 10)
  line = str(error.value)
  assert '\n' not in line
  assert 'no connection to' in line or 'is not a model of' in line


# Those whose clients are installed, and make calls again by themselves.
CLIENTS = 'openai', 'openai-api/local', 'deepseek', 'together', 'ollama'


@pytest.mark.parametrize('name', CLIENTS)
def test_within_a_budget_no_client_makes_a_call_again(monkeypatch, name):
  for variable in KEY, *(f'{x.upper()}_API_KEY' for x in CLIENTS):
    monkeypatch.setenv(variable, 'none')
  url = 'http://127.0.0.1:9/v1'
  settings = language.Model(f'{name}/m', base_url=url)
  assert provider._model(settings).api.client.max_retries > 0
  once = provider._once(settings)
  assert once.api.client.max_retries == 0
  assert once.config.max_retries == 0


@pytest.mark.parametrize('told', ['key', 'model'])
def test_calls_under_way_at_the_end_print_nothing(
  settings, tmp_path, told, caplog, capfd
):
  with pytest.raises(core.InputError):
    _asked(settings, tmp_path, [f'{k} is: {told}' for k in range(20)])
  with pytest.raises(core.InputError):  # Those of before have ended by now.
    _asked(settings, tmp_path, [told])
  gc.collect()  # Where asyncio tells of errors that nobody saw.
  assert 'never retrieved' not in caplog.text
  assert capfd.readouterr().err == ''
