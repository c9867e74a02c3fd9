"""Arithmetic without a model: per-graph reductions, matrix roots, products with sparse matrices and adjacencies."""
