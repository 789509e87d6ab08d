"""Removing all that is kept of a person."""

from durable_adk.ops.erasure.erasing import Erasure, Holdings, erase, survey

__all__ = ["Erasure", "Holdings", "erase", "survey"]
