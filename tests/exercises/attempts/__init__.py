"""What readers might answer: for each exercise what is right, and wrong in at least three ways.

One module for each of ``utils.exercises``. ``RIGHT[name]`` is a list of right answers (several
where they can look different), ``WRONG[name]`` a list of (answer, words of the diagnosis).
"""
