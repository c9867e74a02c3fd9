"""Parts of report pages: layout, charts, figures published elsewhere."""
