"""What the doctor asks at each level, and the faults that can show there.

``kernel``: (q, k, v, keep); ``layer``: (x, memory, weights, n_heads, keep); ``decoding``: (q, k, v,
cache).
"""
