"""Objectives that look for solutions instead of being given Z."""
