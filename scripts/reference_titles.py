"""Titles of what the chapters cite, and what for, by hand; ``scripts/references.py`` needs them.

{address: (title, what it is cited for)}. Threads and pull requests need no title; a line here says
what a thread is cited for where the sentence on the page does not stand alone.
"""

PYTORCH, KERAS = "https://docs.pytorch.org/docs/stable/", "https://keras.io/"
GITHUB = "https://github.com/"
D2L = "https://d2l.ai/chapter_attention-mechanisms-and-transformers/"

PAPERS = {
    "https://doi.org/10.1137/1109020":
        ("Nadaraya (1964), On estimating regression", "the soft lookup, long before attention"),
    "https://docs.oracle.com/cd/E19957-01/806-3568/ncg_goldberg.html":
        ("Goldberg (1991), What every computer scientist should know about floating-point "
         "arithmetic", "why equal programs differ in the last bits"),
    "https://proceedings.mlr.press/v9/glorot10a.html":
        ("Glorot, Bengio (2010), Understanding the difficulty of training deep feedforward neural "
         "networks", "the initialisation named after Xavier"),
    "https://arxiv.org/abs/1409.0473":
        ("Bahdanau, Cho, Bengio (2014), Neural machine translation by jointly learning to align "
         "and translate", "additive scoring"),
    "https://jmlr.org/papers/v15/srivastava14a.html":
        ("Srivastava et al. (2014), Dropout", "weights set to zero at random in training"),
    "https://github.com/SamLynnEvans/Transformer":
        ("Samuel Lynn-Evans, Transformer", "its class, with thanks"),
    "https://arxiv.org/abs/1706.03762":
        ("Vaswani et al. (2017), Attention is all you need", "the equation, its scale and its "
         "heads, and the three uses of attention"),
    "https://arxiv.org/abs/1905.10650":
        ("Michel, Levy, Neubig (2019), Are sixteen heads really better than one?",
         "what is left when trained heads are switched off"),
    "https://arxiv.org/abs/1910.10683":
        ("Raffel et al. (2019), Exploring the limits of transfer learning",
         "full, causal and prefix masks"),
    "https://arxiv.org/abs/1911.00172":
        ("Khandelwal et al. (2019), Generalization through memorization",
         "a lookup beside a language model"),
    "https://arxiv.org/abs/2006.16236":
        ("Katharopoulos et al. (2020), Transformers are RNNs",
         "the other order of the two products"),
    "https://arxiv.org/abs/2010.04245":
        ("Henry et al. (2020), Query-key normalization for transformers", "scores of bounded size"),
    "https://transformer-circuits.pub/2021/framework/index.html":
        ("Elhage et al. (2021), A mathematical framework for transformer circuits",
         "attention as a sum over heads"),
    "https://arxiv.org/abs/2108.12409":
        ("Press, Smith, Lewis (2021), Train short, test long", "ALiBi"),
    "https://arxiv.org/abs/2203.03466":
        ("Yang et al. (2022), Tensor programs V", "why to divide by the width itself"),
    "https://arxiv.org/abs/2302.05442":
        ("Dehghani et al. (2023), Scaling vision transformers to 22 billion parameters",
         "scores that grew during training"),
    "https://arxiv.org/abs/cmp-lg/9606011":
        ("Chen, Goodman (1996), An empirical study of smoothing techniques for language modeling",
         "how to count well"),
    "https://arxiv.org/abs/1803.02155":
        ("Shaw, Uszkoreit, Vaswani (2018), Self-attention with relative position representations",
         "a learned row for each offset"),
    "https://arxiv.org/abs/1901.02860":
        ("Dai et al. (2019), Transformer-XL", "the four terms of a score, mended one by one"),
    "https://arxiv.org/abs/1902.10186":
        ("Jain, Wallace (2019), Attention is not explanation", "weights against what they explain"),
    "https://arxiv.org/abs/1904.09751":
        ("Holtzman et al. (2019), The curious case of neural text degeneration",
         "nucleus sampling"),
    "https://arxiv.org/abs/1906.04341":
        ("Clark et al. (2019), What does BERT look at?", "heads that look where nothing is said"),
    "https://arxiv.org/abs/1908.04626":
        ("Wiegreffe, Pinter (2019), Attention is not not explanation", "the answer to it"),
    "https://arxiv.org/abs/1908.10084":
        ("Reimers, Gurevych (2019), Sentence-BERT", "embeddings of sentences"),
    "https://arxiv.org/abs/1911.02150":
        ("Shazeer (2019), Fast transformer decoding", "what a step with a cache costs"),
    "https://arxiv.org/abs/2002.04745":
        ("Xiong et al. (2020), On layer normalization in the transformer architecture",
         "the norm before a layer or after it"),
    "https://arxiv.org/abs/2004.10102":
        ("Kobayashi et al. (2020), Attention is not only a weight", "weight times length of value"),
    "https://arxiv.org/abs/2005.00928":
        ("Abnar, Zuidema (2020), Quantifying attention flow in transformers", "attention rollout"),
    "https://arxiv.org/abs/2103.03404":
        ("Dong, Cordonnier, Loukas (2021), Attention is not all you need",
         "without residuals all words become one"),
    "https://arxiv.org/abs/2104.09864":
        ("Su et al. (2021), RoFormer", "RoPE: the rotation on the inner side"),
    "https://arxiv.org/abs/2107.06499":
        ("Lee et al. (2021), Deduplicating training data makes language models better",
         "repeated passages in sets that everybody used"),
    "https://arxiv.org/abs/2309.17453":
        ("Xiao et al. (2023), Efficient streaming language models with attention sinks",
         "the place that everybody looks at"),
    "https://arxiv.org/abs/1805.02867":
        ("Milakov, Gimelshein (2018), Online normalizer calculation for softmax",
         "softmax of a list that is read once"),
    "https://arxiv.org/abs/1905.09418":
        ("Voita et al. (2019), Analyzing multi-head self-attention", "most heads can go"),
    "https://arxiv.org/abs/1909.08053":
        ("Shoeybi et al. (2019), Megatron-LM", "heads dealt to machines, one exchange a layer"),
    "https://arxiv.org/abs/2112.05682":
        ("Rabe, Staats (2021), Self-attention does not need O(n²) memory",
         "the same tiles, found in JAX"),
    "https://arxiv.org/abs/2205.14135":
        ("Dao et al. (2022), FlashAttention", "tiles, recomputation, and why it is fast"),
    "https://arxiv.org/abs/2209.11895":
        ("Olsson et al. (2022), In-context learning and induction heads",
         "the name, and how they appear at once"),
    "https://arxiv.org/abs/2305.13245":
        ("Ainslie et al. (2023), GQA", "groups, and the conversion of a trained model"),
    "https://arxiv.org/abs/2310.01889":
        ("Liu, Zaharia, Abbeel (2023), Ring Attention", "keys and values that go round"),
    "https://arxiv.org/abs/2310.06825":
        ("Jiang et al. (2023), Mistral 7B", "groups and a window together"),
    "https://arxiv.org/abs/2311.09431":
        ("Brandon et al. (2023), Striped Attention", "causal work dealt out evenly"),
    "https://arxiv.org/abs/2405.04434":
        ("DeepSeek-AI (2024), DeepSeek-V2", "latent attention"),
    "https://arxiv.org/abs/2407.21783":
        ("Grattafiori et al. (2024), The Llama 3 herd of models",
         "how large models are cut, and how often their training is interrupted"),
    "https://doi.org/10.1145/1498765.1498785":
        ("Williams, Waterman, Patterson (2009), Roofline", "what memory and arithmetic allow"),
    "https://arxiv.org/abs/2007.00072":
        ("Ivanov et al. (2021), Data movement is all you need",
         "where the time of a transformer goes"),
    "https://doi.org/10.1145/361147.361115":
        ("Young (1974), A first order approximation to the optimum checkpoint interval",
         "how often to save"),
    "https://arxiv.org/abs/1910.02054":
        ("Rajbhandari et al. (2019), ZeRO", "slices of weights, gradients and averages"),
    "https://arxiv.org/abs/2006.15704":
        ("Li et al. (2020), PyTorch Distributed", "data parallelism and its buckets"),
    "https://arxiv.org/abs/2304.11277":
        ("Zhao et al. (2023), PyTorch FSDP", "slices, gathered when they are needed"),
}
MANUALS = {
    PYTORCH + "distributed.tensor.parallel.html":
        ("PyTorch, `torch.distributed.tensor.parallel`", "column-wise, row-wise, and what goes in"),
    PYTORCH + "elastic/run.html": ("PyTorch, `torchrun`", "how processes are started"),
    PYTORCH + "nn.attention.flex_attention.html":
        ("PyTorch, `flex_attention`", "a score or a mask as a function"),
    PYTORCH + "notes/extending.html":
        ("PyTorch, extending autograd", "a function with a backward of one's own"),
    PYTORCH + "notes/gradcheck.html":
        ("PyTorch, how gradcheck works", "central differences along random directions"),
    "https://www.nvidia.com/en-us/data-center/h100/":
        ("NVIDIA, H100", "operations and bytes a second, as its maker says"),
    "https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html":
        ("ONNX, RotaryEmbedding", "both pairings, and features that pass"),
    "https://huggingface.co/docs/safetensors/index":
        ("Hugging Face, safetensors", "weights in a file that runs nothing"),
    PYTORCH + "generated/torch.nn.functional.scaled_dot_product_attention.html":
        ("PyTorch, `scaled_dot_product_attention`", "what True means, `scale=` and `is_causal=`"),
    PYTORCH + "generated/torch.nn.MultiheadAttention.html":
        ("PyTorch, `nn.MultiheadAttention`", "the opposite meaning of True"),
    PYTORCH + "nn.attention.bias.html":
        ("PyTorch, `torch.nn.attention.bias`", "the two causal alignments"),
    PYTORCH + "notes/broadcasting.html": ("PyTorch, Broadcasting", "which shapes fit"),
    PYTORCH + "notes/autograd.html": ("PyTorch, Autograd", "how gradients are recorded"),
    PYTORCH + "generated/torch.einsum.html": ("PyTorch, `torch.einsum`", "its letters"),
    PYTORCH + "generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook":
        ("PyTorch, `register_forward_hook`", "looking inside a module"),
    PYTORCH + "notes/autograd.html":
        ("PyTorch, Autograd mechanics", "what the backward pass keeps"),
    PYTORCH + "notes/autograd.html#in-place-operations-with-autograd":
        ("PyTorch, In-place operations with autograd", "tensors that are not yours to change"),
    PYTORCH + "notes/numerical_accuracy.html":
        ("PyTorch, Numerical accuracy", "what may differ between two runs"),
    PYTORCH + "tensor_view.html": ("PyTorch, Tensor views", "which operations never copy"),
    KERAS + "api/layers/attention_layers/multi_head_attention/":
        ("Keras, `MultiHeadAttention`", "`key_dim`, the order of arguments, masks"),
    KERAS + "guides/understanding_masking_and_padding/":
        ("Keras, Masking and padding", "masks that travel with a tensor"),
    "https://www.tensorflow.org/guide/function":
        ("TensorFlow, Better performance with tf.function", "tracing, and what is known when"),
    "https://www.tensorflow.org/text/tutorials/transformer":
        ("TensorFlow, Neural machine translation with a transformer and Keras",
         "a test by trimming the input"),
    "https://onnx.ai/onnx/operators/onnx__Attention.html":
        ("ONNX, `Attention`", "a fourth convention of masks"),
    "https://numpy.org/doc/stable/reference/generated/numpy.einsum.html":
        ("NumPy, `einsum`", "its letters"),
    "https://numpy.org/doc/stable/user/basics.broadcasting.html":
        ("NumPy, Broadcasting", "the rule behind half of the messages"),
    "https://einops.rocks/1-einops-basics/": ("einops, Tutorial", "`rearrange` on pictures"),
}
PROGRAMS = {
    GITHUB + "karpathy/nanoGPT": ("Karpathy, nanoGPT", "the plain recipe in one readable file"),
    GITHUB + "karpathy/nanoGPT/blob/master/train.py":
        ("Karpathy, nanoGPT, `train.py`", "its schedule"),
    GITHUB + "KellerJordan/modded-nanogpt":
        ("Jordan et al., modded-nanogpt", "a speed run, in public"),
    "https://kellerjordan.github.io/posts/muon/": ("Jordan, Muon", "the optimiser, explained"),
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2":
        ("all-MiniLM-L6-v2", "the pretrained encoder"),
    D2L + "multihead-attention.html":
        ("Dive into Deep Learning, Multi-head attention", "heads folded into the batch"),
    D2L + "attention-scoring-functions.html":
        ("Dive into Deep Learning, Attention scoring functions",
         "`masked_softmax`, additive scores"),
    "https://nn.labml.ai/transformers/mha.html":
        ("labml.ai, Multi-headed attention", "the sequence first, made to be overridden"),
    "https://nn.labml.ai/transformers/xl/relative_mha.html":
        ("labml.ai, Relative multi-headed attention", "`get_scores` overridden"),
    "https://nn.labml.ai/transformers/alibi/index.html":
        ("labml.ai, ALiBi", "one method overridden"),
    "https://einops.rocks/pytorch-examples.html":
        ("einops, Writing better code with PyTorch", "the layer written with einsum"),
    "https://github.com/jaymody/picoGPT":
        ("Jay Mody, picoGPT", "GPT-2 in sixty lines of NumPy, packed weights"),
    "https://github.com/openai/gpt-2/blob/master/src/model.py":
        ("OpenAI, GPT-2's `model.py`", "`c_attn` and `c_proj` where they come from"),
    "https://github.com/openai/whisper/blob/main/whisper/model.py":
        ("OpenAI, Whisper's `model.py`", "a layer without the bias that does nothing"),
    "https://github.com/The-AI-Summer/self-attention-cv/blob/main/self_attention_cv/"
    "transformer_vanilla/mhsa.py":
        ("self-attention-cv, `mhsa.py`", "weights packed feature by feature"),
    "https://github.com/rasbt/LLMs-from-scratch":
        ("LLMs-from-scratch", "multi-head attention in nine ways, side by side"),
    "https://en.wikipedia.org/wiki/Mutation_testing":
        ("Wikipedia, Mutation testing", "asking tests what they notice"),
    "http://blog.ezyang.com/2019/05/pytorch-internals/":
        ("Edward Yang (2019), PyTorch internals", "strides, views and storage, drawn"),
    "https://karpathy.github.io/2019/04/25/recipe/":
        ("Andrej Karpathy (2019), A recipe for training neural networks",
         "how to meet what fails silently"),
    GITHUB + "pytorch/pytorch/blob/main/torch/_inductor/fx_passes/fuse_attention.py":
        ("PyTorch, `fuse_attention.py`", "the programs in which the compiler recognises attention"),
    "https://jax-ml.github.io/scaling-book/":
        ("Austin et al. (2025), How to scale your model", "a transformer, counted"),
    "https://unsloth.ai/blog/gradient":
        ("Daniel and Michael Han (2024), Bugs in LLM training", "the mean of means"),
}
THREADS = {
    GITHUB + "huggingface/transformers/issues/24725":
        "gradients accumulated as a mean of means, reported in 2023",
    GITHUB + "huggingface/transformers/pull/34191": "and mended in 2024",
    GITHUB + "EleutherAI/gpt-neox/issues/1003": "angles of RoPE taken in 16 bits",
    GITHUB + "huggingface/transformers/pull/29285": "angles of RoPE taken in 16 bits",
    GITHUB + "huggingface/transformers/issues/25199":
        "the two ways to pair features, and weights permuted from one to the other",
    GITHUB + "facebookresearch/vjepa2/pull/15": "pairs mixed up in a released model",
    GITHUB + "Integral2u/SharpMind/pull/4": "half-split angles on interleaved features",
    GITHUB + "MemTensor/MemOS/issues/2315": "caches joined, keys still turned as before",
    GITHUB + "pytorch/pytorch/issues/144858": "`is_causal` with a cache",
    GITHUB + "ajhalthor/Transformer-Neural-Network/pull/4":
        "heads merged without a transpose, in a video course of 2023",
    GITHUB + "ArrowLuo/CLIP4Clip/issues/22": "the mask of another example",
    GITHUB + "line/lighthouse/pull/77":
        "the mask of another example, in five models of a video library",
    GITHUB + "awslabs/gluonts/pull/1401": "1e−9 where −1e9 was meant",
    GITHUB + "Shujun-He/RibonanzaNet/issues/5": "−1e−9 where −1e9 was meant",
    GITHUB + "BobMcDear/attorch/issues/14":
        "one head for all, in a GPU kernel, 2026",
    GITHUB + "Dao-AILab/flash-attention/issues/1778":
        "the causal flag hangs from the bottom right",
    GITHUB + "ml-explore/mlx/issues/2835": "the causal flag hangs from the bottom right",
    GITHUB + "elixir-nx/bumblebee/pull/204": "weights packed head by head, read as q, k, v",
    GITHUB + "lablup/mlxcel/pull/928": "a model so scrambled still writes fluent English",
    GITHUB + "Lightning-AI/litgpt/pull/1013": "a project that gave up packing head by head",
    GITHUB + "google-deepmind/dm-haiku/issues/700":
        "a leak through a norm, found by its derivatives",
    GITHUB + "Graylab/DL4Proteins-notebooks/issues/12":
        "the wrong scale in a course on proteins, 2026",
    GITHUB + "huggingface/pytorch-image-models/pull/1978":
        "dropout that stayed on in evaluation, 2023",
    GITHUB + "huggingface/transformers/issues/18284": "T5 divides by nothing, and why it trains",
    GITHUB + "huggingface/transformers/issues/1419":
        "`attn.bias` of a GPT-2 checkpoint is the causal mask",
    GITHUB + "huggingface/transformers/pull/17306":
        "−1e4, the smallest number of the dtype, and two masks added",
    GITHUB + "jadore801120/attention-is-all-you-need-pytorch/issues/19":
        "98 % accuracy, and translations that make no sense",
    GITHUB + "keras-team/keras-hub/issues/137": "a mask that got no further than the first block",
    GITHUB + "keras-team/keras-io/issues/1184":
        "`key_dim=d_model`: as many times the parameters as heads",
    GITHUB + "keras-team/keras/issues/18373": "`key_dim` is the width of one head",
    GITHUB + "keras-team/keras-io/pull/1046": "an inverted mask in an example on the Keras site",
    GITHUB + "keras-team/keras/issues/23038":
        "the causal mask lost with scores or with dropout, in a development version",
    GITHUB + "keras-team/keras/pull/20594": "why the layer takes the mask off its inputs",
    GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/282":
        "somebody asks to have the wrong axis back",
    GITHUB + "lsdefine/attention-is-all-you-need-keras/issues/28":
        "heads in front of the examples, masks repeated as if behind",
    GITHUB + "MarcoMeter/episodic-transformer-memory-ppo/pull/22":
        "the projection moved before the cut",
    GITHUB + "mlc-ai/mlc-llm/pull/3426": "one path forgot to divide",
    GITHUB + "pytorch-tpu/transformers/pull/34": "one wrong letter in an einsum",
    GITHUB + "pytorch/pytorch/issues/41508": "NaN from a row that may attend to nothing",
    GITHUB + "pytorch/pytorch/pull/133882":
        "how `scaled_dot_product_attention` came to give zeros",
    GITHUB + "pytorch/pytorch/issues/103963": "NaN from empty rows before PyTorch 2.5",
    GITHUB + "pytorch/pytorch/issues/118628": "NaN from empty rows in the kernel for inference",
    GITHUB + "pytorch/pytorch/issues/118972": "a reader tries to understand `is_causal`",
    GITHUB + "pytorch/pytorch/issues/99282": "`is_causal` is a hint, and is believed",
    GITHUB + "pytorch/pytorch/issues/187801": "a mask and `is_causal` together, by kernel",
    GITHUB + "pytorch/pytorch/issues/2159": "whether it costs anything to keep (out, in)",
    GITHUB + "pytorch/pytorch/issues/64706": "what three axes of a mask mean",
    GITHUB + "pytorch/pytorch/issues/96941": "`is_causal` alone, in evaluation: no mask at all",
    GITHUB + "pytorch/pytorch/pull/190486": "the kernel for inference and its NaN, explained",
    GITHUB + "rasbt/LLMs-from-scratch/pull/1062": "the inverted mask mended, with a test",
    GITHUB + "tensorflow/tensorflow/issues/57779": "a Python float becomes float32",
    GITHUB + "tensorflow/text/pull/894": "a mask of the opposite sense, and “many hours” lost",
    GITHUB + "yflyzhang/AnnotatedTransformer/issues/1": "weights that are never used, July 2025",
}
