"""Measures of added edges, by hand and against plain Python."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.maps import ref
from tests.recon import cities
from tests.recon.cities import E, N, S, W, make_routes
from wm.kernels.maps import reconstruction
from wm.options.calls import Reconstruction
from wm.recon import reconstruct
from wm.recon.reconstruct import FALSE, TRUE, UNUSED


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
  assert used['crossings'] is None
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


def test_crossings_of_streets_counted_once():
  #  2   3     2 <-> 1 and 0 <-> 3 cross; 0 -> 1 touches both at their ends.
  #    X
  #  0   1
  graph = dataclasses.replace(
    cities.row(4),
    lat=np.array([0, 0, 1, 1]) * cities.STEP,
    lon=np.array([0, 1, 0, 1]) * cities.STEP,
  )
  source, target = np.array([0, 1, 2, 0, 3]), np.array([3, 2, 1, 1, 0])
  kind = np.array([FALSE, TRUE, TRUE, FALSE, UNUSED])
  result = reconstruct.crossings(graph, source, target, kind)
  assert result.tolist() == [1, -1, -1, 0, -1]


@given(st.integers(4, 12), st.integers(1, 25), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_crossing_kernels_agree(nodes, num, seed):
  rng = np.random.default_rng(seed)
  x, y = rng.integers(0, 6, (2, nodes)).astype(float)  # Many in a line.
  tails, heads = rng.integers(0, nodes, (2, num)).astype(np.int32)
  many = int(rng.integers(0, num + 1))
  np.testing.assert_array_equal(
    reconstruction.crossings(x, y, tails, heads, many),
    ref.crossings(x, y, tails, heads, many),
  )
