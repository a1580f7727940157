"""Questions on tables, answered by queries or programs."""
