"""Graphs of nodes: their declaration, its checks, and the rules that its data defines.

`durable_adk.workflow` has ADK's names.
"""
