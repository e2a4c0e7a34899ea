"""Webhooks: public events, posted to the URLs that holders of keys name, signed and at least once.

    merged stream ──► worker (one process at a time a webhook) ──► envelope, signature ──► sender ──► receiver
                         position, state and log in Redis            addresses: where it may go at all

Signatures follow Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature), bodies are CloudEvents
1.0. Design: RELIABILITY.md, "Security" and "Faults" (slow and dead subscribers).
"""
