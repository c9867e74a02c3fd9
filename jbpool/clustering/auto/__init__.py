"""Clusters of any graph without labels: a library that knows no configuration and no run folder."""
