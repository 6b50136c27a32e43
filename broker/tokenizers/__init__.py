"""Tokenizers that count as a model does, each made of a file that the operator names; nothing is fetched."""
