"""Trained models in the form that other programs and people use."""
