"""How a spot request becomes a lease: the decisions of the broker and its talk with the owners, without HTTP.

``service`` submits, ``wishes`` are its values; ``exchange`` and ``replies`` carry commands and answers.
"""
