"""LayerNorm and RMSNorm, for NumPy arrays and PyTorch tensors alike."""


def layer_norm(x, gain=1.0, bias=0.0, eps=1e-5, axis=-1):
    """Return (x - mean) / sqrt(variance + eps) * gain + bias, shaped like x.

    Mean and variance (divided by n, not n - 1) are taken over ``axis``, an axis or a tuple.
    Source: https://arxiv.org/abs/1607.06450.
    """
    centred = x - x.mean(axis=axis, keepdims=True)
    variance = (centred ** 2).mean(axis=axis, keepdims=True)
    return centred / (variance + eps) ** 0.5 * gain + bias


def rms_norm(x, gain=1.0, eps=1e-5, axis=-1):
    """Return x / sqrt(mean of squares + eps) * gain, shaped like x.

    ``axis`` is an axis or a tuple. Source: https://arxiv.org/abs/1910.07467.
    """
    return x / ((x ** 2).mean(axis=axis, keepdims=True) + eps) ** 0.5 * gain
