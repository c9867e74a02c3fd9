"""The user's own graphs: one module per kind of file, and one for graphs in memory, read by the same rules."""
