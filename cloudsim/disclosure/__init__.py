"""Disclosure: what a cloud publishes about the lifetimes of its spot instances, and how users choose by it.

levels          levels of disclosure, from nothing to the full distribution, and their figures (P3 §3.2)
masked_tables   the table that a cloud decides by when it does not disclose everything
masking         answers to requests, without what the level hides
targeting       the lifetime to aim at, given the figures and what a job is worth (P3 §4.1, §4.2)

docs/design/volatile-resources.md "Information, targeting, value" and "In the product" explain the choices.
"""
