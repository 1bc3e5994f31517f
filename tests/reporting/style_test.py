"""Text of a page stands out of what it stands on: WCAG 2.1, level AA."""

import importlib.resources
import itertools
import re

import pytest

STYLE = importlib.resources.files('wm.reporting') / 'templates/style.css'
LEAST = 4.5
TEXTS = 'ink', 'soft', 'link', 'yes', 'part', 'no'


def channels(colour: str) -> list[float]:
  """'#rgb', '#rgba' or '#rrggbb' as red, green, blue and opacity, 0 to 1."""
  digits = colour.removeprefix('#')
  if len(digits) < 6:
    digits = ''.join(2 * digit for digit in digits)
  pairs = [digits[n : n + 2] for n in range(0, len(digits), 2)]
  return [int(pair, 16) / 255 for pair in pairs] + [1.0] * (4 - len(pairs))


def over(colour: str, paper: str) -> list[float]:
  """What is seen where a colour lies on an opaque one."""
  *top, opacity = channels(colour)
  below = channels(paper)
  return [
    opacity * x + (1 - opacity) * y for x, y in zip(top, below, strict=False)
  ]


def luminance(rgb: list[float]) -> float:
  """Relative luminance of sRGB, WCAG 2.1."""
  linear = [
    x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in rgb
  ]
  return sum(
    w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
  )


def contrast(text: list[float], ground: list[float]) -> float:
  low, high = sorted(map(luminance, (text, ground)))
  return (high + 0.05) / (low + 0.05)


def schemes() -> dict[str, dict[str, str]]:
  style = STYLE.read_text(encoding='utf-8')
  light, dark = (
    dict(re.findall(r'--(\w+): (#\w+)', block))
    for block in re.findall(r':root \{(.*?)\}', style, re.S)
  )
  return {'light': light, 'dark': light | dark}


def test_contrast_is_that_of_known_colours():
  assert contrast(over('#000', '#fff'), over('#fff', '#fff')) == 21
  # https://webaim.org/resources/contrastchecker: 4.54 of #767676 on white.
  grey = contrast(over('#767676', '#fff'), over('#fff', '#fff'))
  assert grey == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_text_stands_out_of_paper_and_shade(scheme):
  colours = schemes()[scheme]
  paper = colours['paper']
  for text, ground in itertools.product(TEXTS, ('paper', 'shade')):
    ratio = contrast(over(colours[text], paper), over(colours[ground], paper))
    assert ratio >= LEAST, f'{text} on {ground}: {ratio:.2f}'
