"""The training steps that are measured, and the processes that run them."""
