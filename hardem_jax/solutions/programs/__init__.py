"""Programs over one table: superlatives, neighbours, groups, differences and nested queries."""
