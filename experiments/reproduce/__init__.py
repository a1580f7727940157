"""From the official downloads to a table of the paper, by one command."""
