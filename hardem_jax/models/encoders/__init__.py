"""Encoders of text: BERT, its checkpoints, and packed rows."""
