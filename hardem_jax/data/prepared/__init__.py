"""Prepared splits: questions with Z, found once, in one folder."""
