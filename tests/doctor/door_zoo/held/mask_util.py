import torch


def mask_(matrices, maskval=0.0, mask_diagonal=True):
    """Hides the upper triangle of the last two axes, in place."""
    h, w = matrices.size(-2), matrices.size(-1)
    rows, cols = torch.triu_indices(h, w, offset=0 if mask_diagonal else 1)
    matrices[..., rows, cols] = maskval


def d(tensor=None):
    if tensor is None:
        return 'cuda' if torch.cuda.is_available() else 'cpu'
    return 'cuda' if tensor.is_cuda else 'cpu'
