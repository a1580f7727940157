"""What `spans` and `span_sets` share: documents, their windows, mentions, and official metrics."""
