"""Placed labels touch no other label, point or line."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.render.draw.placement import Anchor, Box, Disc, Obstacles, place, place_in_rows, spread
from strategies import law

spots = st.tuples(st.floats(0, 400), st.floats(0, 300), st.floats(5, 120), st.floats(8, 16))


@law(60)
@given(
    st.lists(spots, max_size=25),
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 300), st.floats(0, 400), st.floats(0, 300)), max_size=4),
)
def test_labels_that_were_placed_touch_nothing(labels: list[tuple[float, ...]], lines: list[tuple[float, ...]]) -> None:
    frame = Box(0, 0, 400, 300)
    wanted = [Anchor(x, y, wide, high) for x, y, wide, high in labels]
    discs = [Disc(label.x, label.y, 4.0) for label in wanted]
    segments = [((a, b), (c, d)) for a, b, c, d in lines]
    obstacles = Obstacles(discs, segments)
    places = place(wanted, frame, obstacles)
    assert len(places) == len(wanted)
    assert places == place(wanted, frame, obstacles)  # deterministic
    present = [placed_label for placed_label in places if placed_label is not None]
    for placed_label in present:
        assert placed_label.box.within(frame)
        assert not any(disc.touches(placed_label.box) for disc in discs)
        assert not any(placed_label.box.crossed_by(segment) for segment in segments)
        assert not any(
            other.leader is not None and other is not placed_label and placed_label.box.crossed_by(other.leader)
            for other in present
        )
    assert not any(first.box.overlaps(second.box) for first, second in combinations(present, 2))


def test_a_lone_label_stands_right_of_its_point_without_a_leader() -> None:
    (placed_label,) = place([Anchor(100, 100, 50, 10)], Box(0, 0, 400, 300), Obstacles([Disc(100, 100, 4)]))
    assert placed_label is not None
    assert placed_label.leader is None
    assert placed_label.box.x0 > 100
    assert placed_label.box.holds(placed_label.box.x0 + 1, 100)


def test_a_label_without_room_is_not_placed() -> None:
    assert place([Anchor(50, 50, 200, 10)], Box(0, 0, 100, 100), Obstacles()) == [None]


@law(60)
@given(st.lists(st.tuples(st.floats(150, 250), st.floats(140, 160)), min_size=1, max_size=40))
def test_rows_of_labels_keep_the_order_and_never_overlap(points: list[tuple[float, float]]) -> None:
    frame = Box(0, 0, 500, 300)
    places = place_in_rows(
        [Anchor(x, y, 12, 11) for x, y in points], frame, Obstacles([Disc(x, y, 4) for x, y in points])
    )
    assert places is not None
    assert not any(first.box.overlaps(second.box) for first, second in combinations(places, 2))
    assert all(placed_label.box.within(frame) for placed_label in places)
    for row in {placed_label.box.y0 for placed_label in places}:
        members = sorted(
            (point, placed_label.box.x0)
            for point, placed_label in zip(points, places, strict=True)
            if placed_label.box.y0 == row
        )
        assert [x for _, x in members] == sorted(x for _, x in members)


def test_rows_of_labels_without_room_are_not_placed() -> None:
    assert place_in_rows([Anchor(50, 50, 30, 11)] * 20, Box(0, 0, 100, 100), Obstacles()) is None
    assert place_in_rows([], Box(0, 0, 1, 1), Obstacles()) == []


@law(100)
@given(st.lists(st.floats(0, 100), max_size=8))
def test_spread_keeps_the_order_and_the_distance(wanted: list[float]) -> None:
    centres = spread(wanted, 12, 0, 100)
    ordered = [centres[index] for index in sorted(range(len(wanted)), key=lambda index: (wanted[index], index))]
    assert all(later - earlier >= 12 - 1e-6 for earlier, later in pairwise(ordered))
    assert all(6 - 1e-6 <= centre <= 94 + 1e-6 for centre in centres)
