"""What the doctor asks at each level, and the faults that programs of that level can show.

The levels are ``kernel``, (q, k, v, keep); ``layer``, (x, memory, weights, n_heads, keep); and
``decoding``, (q, k, v, cache). ``level`` is their base class.
"""
