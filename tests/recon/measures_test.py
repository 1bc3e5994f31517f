"""Measures of added edges, by hand and against plain Python."""

import numpy as np
import pytest

from tests.recon import cities
from tests.recon.cities import E, N, S, W, make_routes
from wm.options.calls import Reconstruction
from wm.recon import reconstruct
from wm.recon.reconstruct import FALSE


def _table(graph, *given_routes, **options):
  result = make_routes(*given_routes)
  edges = reconstruct.reconstruct(graph, result, Reconstruction(**options))
  return result, reconstruct.edge_table(graph, result, edges)


def test_bearing_length_and_class_of_every_edge():
  graph = cities.row(5)
  result, table = _table(graph, (0, 3, [N]), (2, 1, [W]), (1, 2, [E]))
  rows = {
    (row['node'], row['direction']): row
    for row in reconstruct.edge_frame(graph, result, table).to_dict('records')
  }
  assert len(rows) == 3 + 3
  up, back, used = rows['100', 'N'], rows['102', 'W'], rows['101', 'E']
  assert (up['class'], up['neighbor'], up['first_line']) == ('new', '103', 1)
  assert up['direction_error_deg'] == pytest.approx(90)  # It leads east.
  assert up['length_m'] == pytest.approx(3 * 111.2, abs=0.2)
  assert (back['class'], back['direction_error_deg']) == ('new', 0)
  assert (used['class'], used['first_line']) == ('true', 3)
  unused = [row for row in rows.values() if row['class'] == 'unused']
  assert {row['node'] for row in unused} == {'100', '102', '103'}
  assert all(row['first_line'] is None for row in unused)


def test_loops_and_odd_labels_have_no_bearing():
  graph = cities.row(4)
  result, table = _table(graph, (0, 0, [S]), (1, 2, [8]))
  new = table.kind == FALSE
  assert np.isnan(table.error[new]).all()
  names = [
    row['direction']
    for row in reconstruct.edge_frame(graph, result, table).to_dict('records')
  ]
  assert 'odd' in names
