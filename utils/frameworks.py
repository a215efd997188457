"""TensorFlow, imported without the lines it writes to the terminal."""

import os


def tensorflow():
    """Import TensorFlow and return it, with file descriptor 2 closed to its start-up messages.

    ``TF_CPP_MIN_LOG_LEVEL`` does not silence them all: some are written before it is read. Raises
    ImportError, with the command that installs it, when TensorFlow is missing.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        import tensorflow as tf
    except ImportError as error:
        raise ImportError("TensorFlow is missing: pip install tensorflow-cpu==2.21.0") from error
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
    return tf
