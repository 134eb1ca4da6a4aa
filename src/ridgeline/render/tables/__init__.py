"""Table builders: each turns one kind of result into Tables."""
