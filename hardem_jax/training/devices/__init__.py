"""Meshes, sharded parameters, several processes, and compiled programs kept on disk."""
