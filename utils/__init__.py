"""The shared module of *One Equation, Many Programs*.

Import what you need, one module at a time: ``from utils import masks, reference``. Importing
``utils`` itself imports no framework, so a NumPy page never waits for PyTorch or TensorFlow.
"""
