"""Questions on documents, answered by a span or by several."""
