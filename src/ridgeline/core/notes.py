"""Note: a sentence for people that also carries its kind, so that code asks for the kind and never reads the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# Every kind that code asks about. A note of no kind is only shown.
NOISE = "noise"  # samples preempted, or another process on the device
DRIFT = "drift"  # samples that drift or fall into two groups
STAND_IN = "stand-in"  # every sample was preempted, and the best of them is used
PROVISIONAL = "provisional"  # too noisy to use; also the key of the reason in the conditions of a machine
NOT_MEASURED = "not measured"  # a probe that was left out, and why
STOPPED = "stopped"  # the user ended the run
LOWER_BOUND = "lower bound"  # the probe cannot reach the ceiling
CONDITIONS = "conditions"  # of a measurement: other load, compiler flags, where files were kept, cache sizes
NOT_DETECTED = "not detected"  # what detection could not determine and a measurement can
ABOVE_ROOFLINE = "above roofline"  # a point faster than its ceilings allow
ASSUMED = "assumed"  # of a work: what was assumed where another choice counts otherwise
KINDS = frozenset(
    {
        "",
        NOISE,
        DRIFT,
        STAND_IN,
        PROVISIONAL,
        NOT_MEASURED,
        STOPPED,
        LOWER_BOUND,
        CONDITIONS,
        NOT_DETECTED,
        ABOVE_ROOFLINE,
        ASSUMED,
    }
)


class Note(str):
    """`Note(kind, text)`. It is its text: it prints, joins and serialises as that."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, kind: str, text: str) -> Note:
        if kind not in KINDS:
            raise ValueError(f"no kind of note is called '{kind}'; there is {', '.join(sorted(KINDS))}")
        note = super().__new__(cls, text)
        note.kind = kind
        return note

    def __reduce__(self) -> tuple[type[Note], tuple[str, str]]:
        return Note, (self.kind, str(self))


def kind_of(note: str) -> str:
    """The kind of a note; a plain string, as files hold it, has none."""
    return note.kind if isinstance(note, Note) else ""


def of_kind(notes: Iterable[str], *kinds: str) -> Iterator[str]:
    return (note for note in notes if kind_of(note) in kinds)


def not_of_kind(notes: Iterable[str], *kinds: str) -> Iterator[str]:
    return (note for note in notes if kind_of(note) not in kinds)
