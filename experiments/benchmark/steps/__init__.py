"""The training step that is timed: sizes, batches, ours and that of PyTorch, worker processes."""
