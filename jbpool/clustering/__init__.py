"""Node clustering."""
