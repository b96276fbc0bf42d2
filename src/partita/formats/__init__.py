"""One room for each table format, all with the same shape."""
