"""What parts of a training step cost: the loss, the diagnostics of z, the search for solutions."""
