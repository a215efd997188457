"""What readers might answer, one module for each of ``utils.exercises``.

``RIGHT[name]`` is a list of right answers to an exercise, written in different ways.
``WRONG[name]`` is a list of (wrong answer, words of the message that it must get).
"""
