"""Webhooks: public events, posted to URLs that holders of keys choose, signed and at least once.

    merged stream ──► worker (one process at a time a webhook) ──► envelope, signature ──► sender ──► receiver
                         store: position, state, log                targets: which addresses are allowed

Signatures follow Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature), bodies are CloudEvents
1.0. ``service`` serves the API, ``worker`` delivers, and both share ``store``, ``secrets`` and ``sender``.
"""
