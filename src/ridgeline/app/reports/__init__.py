"""Report pages of commands: one offline HTML file each, with the answer, charts, tables and the data."""
