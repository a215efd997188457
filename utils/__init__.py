"""The shared module of *One Equation, Many Programs*, in rooms; importing it imports nothing.

The chapters teach ``masks``, ``attention`` (heads, numpy, torch, einsum, …), ``models``
(transformers and their training) and ``parallel`` (several processes).
To test, measure and draw, there are ``reference`` (the equation, slow and plain), ``sizes`` (small
random data), ``checks`` (of arguments, and what "equal" means), ``parity`` (many programs, one
equation), ``measure`` (costs and times) and ``plots``.
``doctor`` finds the mistake in a program, and ``exercises`` checks the answers to exercises.
``setup`` and ``frameworks`` find and import what all of these need, ``source`` reads and writes
Python files, and ``files`` writes and reads all others.
"""
