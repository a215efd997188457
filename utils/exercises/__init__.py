"""The exercises of the chapters, one module each: ``from utils.exercises.masks import check``."""
