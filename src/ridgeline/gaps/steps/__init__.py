"""Where the time of a program goes: a recorded timeline, step by step, against what its operators should take."""
