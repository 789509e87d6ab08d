"""Webhooks: messages to other systems about invocations that pause or end."""
