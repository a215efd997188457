"""The decoder assembled from a configuration, compared with the models of transformers."""

import json

import pytest
import torch
import transformers

from utils.checks import difference
from utils.models import configuration, hugging_face
from utils.models.language_model import next_token_loss

SIZES = {"vocab_size": 31, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4,
         "num_attention_heads": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-3,
         "max_position_embeddings": 64, "pad_token_id": None}
BIASES = {"attention_bias": True, "mlp_bias": True}
WINDOW = {"sliding_window": 3}
LLAMA_3 = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0,
           "high_freq_factor": 3.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0,
        "original_max_position_embeddings": 16}
BY_KIND = {"full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 70.0},
           "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
MODELS = {  # the class of the model, and what its configuration says besides the sizes
    "llama": ("Llama", {}),
    "llama, heads wider than e / h": ("Llama", {"head_dim": 10, **BIASES}),
    "llama, one head of k and v, tied": ("Llama", {"num_key_value_heads": 1,
                                                   "tie_word_embeddings": True}),
    "llama, linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.5,
                                                    "rope_theta": 90.0}}),
    "llama 3": ("Llama", {"rope_parameters": LLAMA_3}),
    "llama, YaRN": ("Llama", {"rope_parameters": YARN, "head_dim": 12}),
    "llama, gelu": ("Llama", {"hidden_act": "gelu", "num_key_value_heads": 6}),
    "mistral": ("Mistral", WINDOW),
    "mistral without window": ("Mistral", {"sliding_window": None, "head_dim": 6}),
    "qwen2": ("Qwen2", {}),
    "qwen2, windows from layer 1 on": ("Qwen2", {"use_sliding_window": True, **WINDOW,
                                                 "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "qwen3, biases, windows by layer": ("Qwen3", {
        "head_dim": 10, "attention_bias": True, "use_sliding_window": True, **WINDOW,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3", {}),
    "smollm3, windows, two without positions": ("SmolLM3", {
        "use_sliding_window": True, **WINDOW, "no_rope_layers": [1, 0, 1, 0],
        **BIASES, "tie_word_embeddings": False}),
    "gemma2": ("Gemma2", {"head_dim": 8, **WINDOW, "query_pre_attn_scalar": 21,
                          "attn_logit_softcapping": 0.6, "final_logit_softcapping": 1.5}),
    "gemma3": ("Gemma3", {"head_dim": 8, **WINDOW, "query_pre_attn_scalar": 21,
                          "num_hidden_layers": 7}),
    "gemma3, two bases, linear": ("Gemma3", {"head_dim": 8, **WINDOW, "rope_parameters": BY_KIND,
                                             "sliding_window_pattern": 2, "attention_bias": True,
                                             "final_logit_softcapping": 1.5}),
    "gpt-oss": ("GptOss", {"head_dim": 8, **WINDOW, "num_local_experts": 5,
                           "num_experts_per_tok": 2, "swiglu_limit": 0.9, "swiglu_alpha": 1.3,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 60.0}}),
    "gpt-oss without biases, windows by layer": ("GptOss", {
        "head_dim": 4, **WINDOW, "num_local_experts": 3, "num_experts_per_tok": 3,
        "attention_bias": False, "layer_types": ["full_attention"] * 3 + ["sliding_attention"],
        "rope_parameters": {"rope_type": "linear", "rope_theta": 60.0, "factor": 2.0}}),
    "gpt-oss, YaRN": ("GptOss", {
        "head_dim": 12, **WINDOW, "num_local_experts": 3, "num_experts_per_tok": 2,
        "rope_parameters": {**YARN, "beta_fast": 2.0, "beta_slow": 0.3, "truncate": False}}),
    "qwen3, YaRN with a factor": ("Qwen3", {
        "head_dim": 8, "rope_parameters": {**YARN, "attention_factor": 1.3}}),
    "mistral, YaRN with two scales": ("Mistral", {
        **WINDOW, "head_dim": 8, "rope_parameters": {**YARN, "mscale": 1.2,
                                                     "mscale_all_dim": 0.7}}),
    "olmo3, YaRN in full layers": ("Olmo3", {**WINDOW, "rope_parameters": {
        "full_attention": YARN, "sliding_attention": {"rope_type": "default",
                                                      "rope_theta": 50.0}}}),
    "olmo2": ("Olmo2", {}),
    "olmo3": ("Olmo3", {**WINDOW}),
    "olmo3, two bases, tied": ("Olmo3", {**WINDOW, "rope_parameters": BY_KIND,
                                         "tie_word_embeddings": True, "attention_bias": True}),
}
TOKENS = torch.randint(31, (2, 11), generator=torch.Generator().manual_seed(4))


def judge(name):
    """Return (model of transformers with random parameters, its config.json as a dict)."""
    kind, more = MODELS[name]
    kind = f"{kind}Text" if kind == "Gemma3" else kind
    config = getattr(transformers, f"{kind}Config")(
        **{**SIZES, **more}, attn_implementation="eager", experts_implementation="eager")
    kind = {"Gemma3Text": "Gemma3"}.get(kind, kind)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():  # also gains, biases and sinks, which begin as 0 or 1
        values = torch.randn(parameter.shape, generator=generator).to(parameter)
        parameter.data = values * (0.4 if parameter.ndim > 1 else 0.7)
    return model, json.loads(config.to_json_string(use_diff=False))


@pytest.fixture
def double(float64, monkeypatch):
    """Let transformers compute in float64 what it computes in float32 otherwise."""
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.mark.parametrize("name", MODELS)
def test_the_logits_are_those_of_transformers(name):
    model, config = judge(name)
    with torch.no_grad():
        want = model(TOKENS).logits
    found = hugging_face.load(config, model.state_dict())(TOKENS)
    assert found.dtype == torch.float32
    assert difference(found, want) < 1e-5
    assert want.std() > 0.1


@pytest.mark.parametrize("name", MODELS)
def test_in_float64_logits_and_gradients_are_those_of_transformers(name, double):
    model, config = judge(name)
    ours = hugging_face.load(config, model.state_dict())
    assert difference(ours(TOKENS), model(TOKENS).logits) < 1e-10
    loss, want = next_token_loss(ours, TOKENS), model(TOKENS, labels=TOKENS).loss
    assert difference(loss, want) < 1e-10
    loss.backward()
    want.backward()
    theirs = dict(model.named_parameters())
    for mine, packed in hugging_face.names(ours.plan).items():
        gradient = torch.cat([theirs[part].grad for part in packed])
        assert difference(ours.get_parameter(mine).grad, gradient) < 1e-10, mine


@pytest.mark.parametrize("chunks", [[1] * 11, [5, 1, 5], [2, 9]], ids=str)
@pytest.mark.parametrize("name", ["llama", "gemma2", "gemma3", "gpt-oss", "olmo3", "smollm3",
                                  "qwen3, biases, windows by layer"])
def test_with_a_cache_the_chunks_do_not_matter(name, chunks, float64):
    model, config = judge(name)
    ours = hugging_face.load(config, model.state_dict())
    caches = ours.caches()
    with torch.no_grad():
        parts = [ours(part, caches=caches) for part in TOKENS.split(chunks, dim=1)]
        assert difference(torch.cat(parts, dim=1), ours(TOKENS)) < 1e-12
    assert [len(cache) for cache in caches] == [layer.window or 11 for layer in ours.plan.layers]


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt-oss", "olmo3", "smollm3"])
def test_padding_on_the_left_changes_no_logits(name, float64):
    model, config = judge(name)
    ours = hugging_face.load(config, model.state_dict())
    padded = torch.cat((TOKENS[:1, :3], TOKENS[1:, :8]), dim=1)
    positions = torch.tensor([[-1] * 3 + list(range(8)), list(range(11))])
    with torch.no_grad():
        found = ours(torch.cat((padded, TOKENS[:1])), positions)
        assert difference(found[:1, 3:], ours(TOKENS[1:, :8])) < 1e-12
        assert difference(found[1:], ours(TOKENS[:1])) < 1e-12


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gpt-oss"])
def test_in_bfloat16_the_logits_are_near_those_of_transformers(name):
    model, config = judge(name)
    with torch.no_grad():
        exact = model(TOKENS).logits
        model.to(torch.bfloat16)
        want = model(TOKENS).logits
        ours = hugging_face.load(config, model.state_dict())(TOKENS)
    assert ours.dtype == torch.bfloat16
    off = (ours.float() - exact).square().mean().sqrt()
    assert off < 1.5 * (want.float() - exact).square().mean().sqrt()


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen2", "Qwen3", "SmolLM3", "Gemma2",
                                  "Gemma3Text", "GptOss", "Olmo2", "Olmo3"])
def test_what_a_configuration_leaves_out_is_as_in_transformers(kind):
    theirs = getattr(transformers, f"{kind}Config")
    sizes = {**{name: SIZES[name] for name in configuration.SIZES}, "num_attention_heads": 32,
             "hidden_size": 256}
    whole = theirs(**sizes).to_dict()
    brief = {"model_type": theirs.model_type, **sizes}
    assert configuration.read(brief) == configuration.read(whole)


OLDER = [
    ("Llama", {"rope_theta": 77.0}),
    ("Llama", {"rope_theta": 77.0, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("Gemma3Text", {"rope_theta": 77.0, "rope_local_base_freq": 55.0, "head_dim": 8,
                    "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("Gemma3Text", {"sliding_window_pattern": 3, "head_dim": 8}),
    ("Llama", {"rope_theta": 5e5, "max_position_embeddings": 4096, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}),
    ("Qwen2", {"rope_theta": 1e6, "rope_scaling": {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}),
    ("Olmo3", {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("SmolLM3", {"use_sliding_window": True, "sliding_window": 3, "no_rope_layers": [1, 0, 1, 1]}),
    ("SmolLM3", {"no_rope_layer_interval": 3}),
    ("Qwen3", {"rope_theta": 77.0, "use_sliding_window": True, "max_window_layers": 2}),
]


@pytest.mark.parametrize(("kind", "more"), OLDER, ids=str)
def test_older_configurations_are_read_as_in_transformers(kind, more):
    theirs = getattr(transformers, f"{kind}Config")
    more = json.loads(json.dumps(more))  # transformers modifies what it is given
    plain = {"model_type": theirs.model_type, **SIZES, **more}
    before = json.dumps(plain)
    found = configuration.read(plain)
    assert json.dumps(plain) == before
    assert found == configuration.read(theirs(**{**SIZES, **more}).to_dict())
