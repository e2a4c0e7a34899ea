"""The figures of the documentation: ``python -m tests.integration.docs.figures docs/figures`` draws them
anew.

Those with data are worked out by the product's own code on a synthesised load; the same bytes every time.
"""
