"""What official metrics of several tasks share: F1 of words, of sets of words, of a corpus."""
