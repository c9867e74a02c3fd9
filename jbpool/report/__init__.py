"""Parts of report pages: page, charts, the view of a graph, published results."""
