"""The paper's analysis, as commands: docs/reproducing.md says which one gives which figure."""
