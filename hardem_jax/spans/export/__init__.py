"""A span reader for Hugging Face transformers, with a model card."""
