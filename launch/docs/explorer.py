"""Makes the animated picture of the explorer from its page.

  python launch/docs/explorer.py RUN OUT.gif "1 58 E" "1 58 E E" ...

Each text is a prefix, and a frame. It needs `pip install -e '.[explore]'`,
Pillow, and Chromium by the name `chromium`.
"""

import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

from PIL import Image

SIZE, WIDTH, SECONDS = '1180,580', 860, 1.6
ROOT = pathlib.Path(__file__).resolve().parents[1]


def main(run: str, out: str, *prefixes: str) -> None:
  """Serves the page, and takes a screenshot of each prefix."""
  command = [sys.executable, str(ROOT / 'explore.py'), f'--run={run}']
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    assert server.stdout is not None
    address = next(line for line in server.stdout if line.startswith('http'))
    frames = [_frame(address.strip(), prefix) for prefix in prefixes]
    server.terminate()
  frames[0].save(
    out,
    save_all=True,
    append_images=frames[1:],
    duration=int(1000 * SECONDS),
    loop=0,
    optimize=True,
  )


def _frame(address: str, prefix: str) -> Image.Image:
  fragment = urllib.parse.urlencode({'prefix': prefix})
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, 'frame.png')
    subprocess.run(
      [
        *('chromium', '--headless', '--no-sandbox', '--hide-scrollbars'),
        *(f'--window-size={SIZE}', '--virtual-time-budget=8000'),
        f'--screenshot={path}',
        f'{address}#{fragment}',
      ],
      check=True,
      capture_output=True,
    )
    picture = Image.open(path).convert('RGB')
  height = round(picture.height * WIDTH / picture.width)
  # Few colours: a page of lines and letters needs no more.
  return picture.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(64)


if __name__ == '__main__':
  main(*sys.argv[1:])
