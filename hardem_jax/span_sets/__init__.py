"""Answers of several spans. Z: taggings whose spans are the answers; f(z): the set of texts."""
