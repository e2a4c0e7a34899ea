"""Study of volatile resources (P3; docs/design/volatile-resources.md).

availability   how many units of a pool are idle, inferred from spot prices (§2.3, Equation 1)
synthetic      pools made from numbers, like the paper's exemplars
managers       orders in which units are revoked, and the intervals that result (§3.1)
kernels        the same, compiled (numba)
study          what users get out of a pool, by revocation policy and by what they are told (§4.3, §5)

What is disclosed to users, and the target they choose, is in ``cloudsim.disclosure``.
"""
