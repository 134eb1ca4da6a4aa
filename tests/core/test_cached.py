"""Properties that are computed once."""

from __future__ import annotations

import threading

from ridgeline.core.cached import cached_property

WAIT_S = 60.0


class Counted:
    asked = 0

    @cached_property
    def value(self) -> int:
        """What was asked for."""
        self.asked += 1
        return self.asked


class Crossed:
    """`left` of one asks for `right` of the other and the other way round, each while the other is being computed."""

    other: Crossed

    def __init__(self, both: threading.Barrier) -> None:
        self.both, self.last = both, False

    @cached_property
    def left(self) -> str:
        if self.last:
            return "left"
        self.both.wait(WAIT_S)
        self.other.last = True
        return f"left of {self.other.right}"

    @cached_property
    def right(self) -> str:
        if self.last:
            return "right"
        self.both.wait(WAIT_S)
        self.other.last = True
        return f"right of {self.other.left}"


def test_a_value_is_computed_once_and_can_be_forgotten() -> None:
    counted = Counted()
    assert [counted.value, counted.value] == [1, 1]
    del counted.value
    assert counted.value == 2
    assert Counted.value.__doc__ == "What was asked for."


def test_threads_that_ask_for_each_others_values_do_not_wait_for_ever() -> None:
    both = threading.Barrier(2)
    one, two = Crossed(both), Crossed(both)
    one.other, two.other = Crossed(both), Crossed(both)
    got: list[str] = []
    asking = [
        threading.Thread(target=lambda: got.append(one.left), daemon=True),
        threading.Thread(target=lambda: got.append(two.right), daemon=True),
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(WAIT_S)
    assert sorted(got) == ["left of right", "right of left"]
