"""Pages escape what stands in them, and notice what a template lacks."""

import jinja2
import pytest

from wm.runtime import pages

TEMPLATES = pages._templates('wm.reporting')


def render(monkeypatch, template: str, name: str = 'a.html', **values) -> str:
  """A template that is given as text."""
  loader = jinja2.DictLoader({name: template})
  result = TEMPLATES.overlay(loader=loader)
  monkeypatch.setattr(pages, '_templates', lambda package: result)
  return pages.render('wm.reporting', name, **values)


def test_pages_escape_and_texts_do_not(monkeypatch):
  bad = '<script>"&'
  page = render(monkeypatch, '<i title="{{ x }}">{{ x }}</i>', x=bad)
  assert (
    page == '<i title="&lt;script&gt;&#34;&amp;">&lt;script&gt;&#34;&amp;</i>'
  )
  assert render(monkeypatch, '{{ x }}', 'a.md', x=bad) == bad


def test_data_cannot_end_the_script_that_holds_it(monkeypatch):
  page = render(monkeypatch, '{{ x|tojson }}', x=['</script>', 1])
  assert page == '["\\u003c/script\\u003e",1]'
  with pytest.raises(ValueError, match='JSON'):
    render(monkeypatch, '{{ x|tojson }}', x=float('nan'))


def test_an_image_is_part_of_the_page(monkeypatch):
  page = render(monkeypatch, '{{ x|data_uri("svg+xml") }}', x='<svg/>')
  assert page == 'data:image/svg+xml;base64,PHN2Zy8+'


def test_a_missing_value_is_an_error(monkeypatch):
  with pytest.raises(jinja2.UndefinedError, match='x'):
    render(monkeypatch, '{{ x }}')
