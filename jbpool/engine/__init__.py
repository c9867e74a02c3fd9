"""What both tasks need to run: configurations, training loop, processes, run folder."""
