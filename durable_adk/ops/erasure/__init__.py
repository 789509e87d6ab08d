"""Erases everything that the stores and Temporal keep about a person."""

from durable_adk.ops.erasure.erasure import UNREACHED, Erasure, Holdings, erase, survey

__all__ = ["UNREACHED", "Erasure", "Holdings", "erase", "survey"]
