"""Official layouts -> examples, one module per layout."""
