"""From results to what people look at: the summary (summary.py), figures (plots.py), the page (page.py)."""
