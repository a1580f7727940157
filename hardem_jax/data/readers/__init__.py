"""Official layouts -> examples, a module a layout."""
