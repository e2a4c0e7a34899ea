"""The ledger: what each cloud promised, and what came of it."""
