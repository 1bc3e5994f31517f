"""launch/ask.py, killed: a budget holds, and no stored answer is paid again."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from wm.language import answer_cache

BUDGET = 60_000


class Paid(http.server.BaseHTTPRequestHandler):
  """Answers yes, notes each prompt and charge, and kills the client."""

  def log_message(self, *args):
    pass

  def do_POST(self):
    server = self.server
    body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
    prompt = body['messages'][-1]['content']
    with server.lock:
      server.asked.append(prompt)
      number = len(server.asked)
    usage = {'prompt_tokens': len(prompt) // 4, 'completion_tokens': 40}
    usage['total_tokens'] = sum(usage.values())
    server.charged += usage['total_tokens']
    if number in server.kills_before:
      server.client.kill()
      return
    message = {'role': 'assistant', 'content': 'Yes.'}
    choice = {'index': 0, 'message': message, 'finish_reason': 'stop'}
    reply = {'id': '1', 'object': 'chat.completion', 'created': 1, 'model': 'm'}
    text = json.dumps(reply | {'choices': [choice], 'usage': usage}).encode()
    self.send_response(200)
    self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(text)))
    self.end_headers()
    self.wfile.write(text)
    if number in server.kills_after:
      server.client.kill()


def _stored(folder):
  """Hashes of the prompts that have a stored answer."""
  lines = [x for path in folder.glob('*.jsonl') for x in path.open('rb')]
  entries = [entry for line in lines for entry in answer_cache._parsed(line)]
  return {prompt for (prompt, _), _ in entries}


@pytest.mark.slow
def test_kills_pass_no_budget_and_pay_no_answer_again(root, tmp_path):
  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Paid)
  server.lock, server.asked, server.charged = threading.Lock(), [], 0
  server.kills_before, server.kills_after = {1, 23}, {9, 37}
  threading.Thread(target=server.serve_forever, daemon=True).start()
  answers = tmp_path / 'answers'
  model = (
    "language(model='openai-api/local/m', max_tokens=64, connections=3, "
    f"base_url='http://127.0.0.1:{server.server_port}/v1', "
    f'answers={str(answers)!r})'
  )
  command = [
    *(sys.executable, 'launch/ask.py', '--world=maps(rows=3, columns=3)'),
    *(f'--model={model}', f'--out={tmp_path / "out"}'),
    '--metric=distinction(samples=0, max_elements=3, trials=40)',
    f'--budget={BUDGET}tok',
  ]
  environment = {**os.environ, 'LOCAL_API_KEY': 'none', 'PYTHONPATH': str(root)}
  codes, stored = [], []
  while not codes or codes[-1] == -signal.SIGKILL:
    begun, known = len(server.asked), _stored(answers)
    server.client = subprocess.Popen(
      command, cwd=root, env=environment, stdout=subprocess.DEVNULL
    )
    codes.append(server.client.wait())
    asked = {answer_cache.key(prompt, 0)[0] for prompt in server.asked[begun:]}
    assert not asked & known
    stored.append(len(known))
  server.shutdown()
  assert codes == [-signal.SIGKILL] * 4 + [0]
  assert stored == sorted(stored)
  assert stored[-1] > 20
  # What was under way when it was killed may be asked again, and nothing else.
  assert len(server.asked) - len({*server.asked}) <= 4 * 3
  assert BUDGET / 2 < server.charged <= BUDGET
