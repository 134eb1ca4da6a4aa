"""`python -m ridgeline`."""

from .cli import main

main(prog_name="ridgeline")
