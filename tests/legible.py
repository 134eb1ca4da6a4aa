"""Whether a drawn picture can be read: no two texts overlap, none is cut off."""

from __future__ import annotations

from itertools import combinations
from typing import Any


def extents(drawn: Any) -> list[tuple[str, Any, float]]:
    """Every visible text with the box matplotlib itself measures for it."""
    from matplotlib.text import Text

    drawn.draw_without_rendering()  # a legend places its texts when it is drawn
    renderer = drawn.canvas.get_renderer()
    visible = [item for item in drawn.findobj(Text) if item.get_visible() and item.get_text().strip()]
    # `Text`'s own extent: that of an annotation includes its leader
    return [(item.get_text(), Text.get_window_extent(item, renderer), item.get_rotation()) for item in visible]


def assert_legible(drawn: Any) -> None:
    texts = extents(drawn)
    upright = [(words, box) for words, box, angle in texts if angle == 0]
    for (first_words, first), (second_words, second) in combinations(upright, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        # letters sit inside their line box, so a pixel of shared height is air
        assert not (across > 0.5 and down > 2.0), (first_words, second_words)
    for words, box, angle in texts:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= drawn.bbox.width and box.y1 <= drawn.bbox.height, words  # noqa: PT018
        if angle not in (0, 90):
            middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
            half = (box.x1 - box.x0) / 2 * 0.85
            for step in range(-10, 11):
                x, y = middle[0] + half * step / 10, middle[1] + (box.y1 - box.y0) / 2 * 0.85 * step / 10
                assert not any(other.x0 < x < other.x1 and other.y0 < y < other.y1 for _, other in upright), words
