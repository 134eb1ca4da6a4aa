"""The machine this runs on: what the operating system and the drivers report of its CPU and GPUs, as a Machine."""
