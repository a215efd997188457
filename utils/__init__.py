"""The shared module of *One Equation, Many Programs*, in rooms; importing it imports nothing.

To read, and taught in the chapters: ``masks``, ``attention`` (heads, numpy, torch, einsum, …),
``models`` (transformers and their training), ``parallel`` (several processes).
To prove, measure and draw: ``reference`` (the equation, slow and trusted), ``sizes`` (small random
data), ``checks`` (arguments, and what equal means), ``parity`` (many programs, one equation),
``measure`` (costs, clocks), ``plots``.
To diagnose: ``doctor`` (which mistake a program holds), ``exercises`` (what judges the answers).
``setup`` and ``frameworks`` find and start what all of these need.
"""
