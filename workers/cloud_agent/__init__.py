"""The cloud agent of a real cloud makes the instances of the cloud agree with the leases of its owner.

``agent`` is the loop, ``reconcile`` decides what to do about one instance, ``tracked`` holds what the loop
knows of each. ``leases`` and ``owner_client`` talk to the owner, ``drivers`` to the cloud.
"""
