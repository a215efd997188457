"""Load SmolLM2-135M, a small published model of the family ``llama``, from the Hugging Face hub.

Source: https://huggingface.co/HuggingFaceTB/SmolLM2-135M. Its files are 270 MB, so nothing is
downloaded unless that is asked for. The parameters are in a safetensors file, so loading unpickles
nothing.
"""

import json
import warnings
from pathlib import Path

from . import hugging_face

REPOSITORY = "HuggingFaceTB/SmolLM2-135M"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
# What its config.json says about the sizes, to count parameters without a network.
CONFIG = {"model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
          "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576,
          "intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": 8192,
          "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
          "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False,
          "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True,
          "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 49152}


def find(download=False):
    """Return the paths of its files, {name: Path}, or None if they are not on this computer.

    They are downloaded only if ``download`` is True; without a network, the result is None, too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its progress bars
            from huggingface_hub import hf_hub_download
        return {name: Path(hf_hub_download(REPOSITORY, name, token=False,
                                           local_files_only=not download)) for name in FILES}
    except Exception:  # no network, no such file, no library: there is no model
        return None


def load(download=False):
    """Return (model, tokenizer), or None as ``find`` does.

    ``model`` is a ``decoder.Decoder`` in float32, and ``tokenizer`` that of the library tokenizers.
    """
    paths = find(download)
    if paths is None:
        return None
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    config = json.loads(paths["config.json"].read_text(encoding="utf-8"))
    model = hugging_face.load(config, load_file(paths["model.safetensors"]))
    return model.float(), Tokenizer.from_file(str(paths["tokenizer.json"]))
