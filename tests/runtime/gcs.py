"""A server of Google's protocol on the loopback address, for gs:// URLs.

    python -m tests.runtime.gcs PORT

The emulator knows no conditional creates, by which two writers are told apart;
here they are refused where the object exists, as Google does.
"""

import http
import sys
from typing import Any

from gcp_storage_emulator.handlers import objects

BUCKET = 'shelf'
_insert = objects.insert


def _name(request: Any) -> str | None:
  """Of the object that a request uploads."""
  if 'name' in request.query:
    return request.query['name'][0]
  body = request.data if isinstance(request.data, dict) else {}
  return body.get('meta', body).get('name')


def insert(request: Any, response: Any, storage: Any, *args: Any) -> None:
  """Uploads an object, unless it exists and must not."""
  if request.query.get('ifGenerationMatch') == ['0']:
    try:
      storage.get_file_obj(request.params['bucket_name'], _name(request))
    except objects.NotFound:
      pass
    else:
      response.status = http.HTTPStatus.PRECONDITION_FAILED
      response.json({'error': {'code': 412, 'message': 'conditionNotMet'}})
      return
  _insert(request, response, storage, *args)


def main() -> None:
  """Serves until it is killed."""
  objects.insert = insert  # Before the server's routes name it.
  from gcp_storage_emulator import server

  server.create_server(
    '127.0.0.1', int(sys.argv[1]), in_memory=True, default_bucket=BUCKET
  ).run()


if __name__ == '__main__':
  main()
