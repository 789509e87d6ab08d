"""Thousands of real faults on real processes, and the auditor that looks for what they broke."""
