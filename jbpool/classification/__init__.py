"""Graph classification."""
