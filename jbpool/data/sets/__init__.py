"""Published and generated datasets, one module per family."""
