"""Conversations that must come out the same however they are run."""
