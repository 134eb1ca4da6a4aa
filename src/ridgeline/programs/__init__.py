"""Programs: Work and Programs from calls of ops, rows of a table of cases, and calls of library functions."""
