"""Arithmetic without a model: per-graph reductions, matrix roots, sparse products, coarsening."""
