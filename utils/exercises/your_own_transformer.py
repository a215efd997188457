"""The seven milestones of the last chapter of the main road; ``capstone`` holds their judges."""

from ._check import Check, Exercise
from .capstone import block, heads, model, parts, training, writing

check = Check({
    "attention": Exercise(parts.attention, (
        "It has four steps: scores, mask, softmax, mean of the values.",
        "k.mT swaps the last two axes of k, so q @ k.mT is (…, i, j). Divide by the root of d.",
        "scores.masked_fill(~keep, -torch.inf) masks; softmax runs over the keys, axis -1."),
        "It equals the reference, with two, one or no axis in front."),
    "mask": Exercise(parts.mask, (
        "Row i belongs to query i. Which keys may it attend to? Itself is one of them.",
        "torch.ones(n, n, dtype=torch.bool), and a method that keeps a triangle of it."),
        "Every query may attend to itself and to all earlier keys."),
    "heads": Exercise(heads.heads, (
        "Four linear layers: three make q, k and v from x, the last one mixes the merged heads.",
        "Split: (b, i, e) to (b, i, h, d) with view, then to (b, h, i, d) with transpose. Merging "
        "takes the same two steps backwards.",
        "Between the two, call attention(q, k, v, causal(n)). RoPE would rotate q and k before."),
        "The heads are split and merged well, each has weights of its own, and no output depends "
        "on a later token."),
    "block": Exercise(block.block, (
        "Two steps, and both add to x: attention, then a feed-forward layer.",
        "The feed-forward layer has two matrices, e to 4 e and back, with GELU between them.",
        "In front of each stands a norm of its own: x = x + layer(norm(x))."),
        "Both layers add to their input, and no line mixes tokens except attention."),
    "model": Exercise(model.model, (
        "An embedding, the blocks, a norm, and a linear layer with n_tokens outputs.",
        "Put the blocks into nn.ModuleList, so that the optimiser finds their parameters.",
        "Positions come from RoPE in MultiHead, or from a second embedding that is added in "
        "Model. context is 128 or more, as an attribute."),
        "A new model knows nothing, the order of tokens matters, and no logit depends on a later "
        "token."),
    "training": Exercise(training.training, (
        "A step draws random starts, cuts pieces of model.context + 1 tokens, and compares the "
        "logits of all but the last token with all but the first.",
        "F.cross_entropy wants (rows, n_tokens) and (rows,): flatten both.",
        "Then zero_grad, backward, step. AdamW with lr=3e-3 and 16 pieces in a step are enough."),
        "After 150 steps, it needs fewer bits on held-out passages than counting characters, and "
        "not so few that it must have seen them."),
    "writing": Exercise(writing.writing, (
        "n times: logits, one token, torch.cat.",
        "Only the logits at the last position predict the next token: [:, -1].",
        "Give the model tokens[:, -model.context:], and divide the logits by the temperature; "
        "at 0, take argmax instead."),
        "It writes what the model predicts, also beyond the context."),
})
