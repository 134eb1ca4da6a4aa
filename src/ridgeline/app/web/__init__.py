"""The explorer: a page that asks what the command line asks and draws the answers."""
