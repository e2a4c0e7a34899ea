"""The way of a spot request from its submission to a lease.

``submit`` leads the way: ``validation`` and ``candidates`` (with ``routing`` over the ``members``) decide
where a
request may go, ``open_request`` is what is known on the way, ``store`` keeps the record, ``owner_commands``
and
``replies`` talk to the owners, ``quota`` and ``quota_reconciler`` keep members below their caps. ``models``
and ``errors`` hold the values that pass between them.
"""
