"""Answers that are a span of a document. Z: every mention of an answer; f(z): its text."""
