"""What passes through a tiny Llama, against a forward pass by hand; then the stored one."""

import pydoc_data.topics
import re

import numpy as np
import pytest
import torch
from torch import nn

from course_utils import inside
from course_utils.inside import PASSAGES, look_inside, norm_weights, passages, trained_llama
from course_utils.tiny_llama import BYTES, HIDDEN, LAYERS, WINDOW, TinyLlama, loss_of, python_text

STARTS = [(topic, start) for topic, starts in PASSAGES.items() for start in starts]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def tokens():
    return torch.randint(BYTES, (2, 7), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model():
    """In float64, each norm with weights of its own: none of them may be left out."""
    model, g = TinyLlama(), torch.Generator().manual_seed(1)
    for norm in model.norms():
        nn.init.uniform_(norm.weight, 0.5, 2, generator=g)
    return model.double()


# --- The passages


def test_passages_are_eight_windows_that_begin_as_said():
    read = passages()
    assert read.shape == (8, 64) == (len(STARTS), WINDOW) and read.dtype == torch.int64
    for row, (_, start) in zip(read, STARTS, strict=True):
        assert bytes(row.tolist()).startswith(start.encode())
    assert len({tuple(row.tolist()) for row in read}) == 8


def test_no_passage_is_in_the_text_of_the_training():
    trained = bytes(python_text().train.tolist())
    assert not [row for row in passages() if bytes(row.tolist()) in trained]


@pytest.mark.parametrize(("topic", "start"), STARTS)
def test_a_passage_that_python_lacks_is_named(topic, start, monkeypatch):
    """Inside a line its words do not count: it must begin one."""
    words = {name: text.replace(f"\n{start}", f"\nx {start}") for name, text in topics().items()}
    monkeypatch.setattr(pydoc_data.topics, "topics", words)
    with pytest.raises(LookupError, match=f"{re.escape(repr(topic))}.*{re.escape(repr(start))}"):
        passages()


@pytest.mark.parametrize("topic", PASSAGES)
def test_a_topic_that_python_lacks_is_named(topic, monkeypatch):
    words = {name: text for name, text in topics().items() if name != topic}
    monkeypatch.setattr(pydoc_data.topics, "topics", words)
    start = PASSAGES[topic][0]
    with pytest.raises(LookupError, match=f"{re.escape(repr(topic))}.*{re.escape(repr(start))}"):
        passages()


def topics():
    return pydoc_data.topics.topics


# --- Looking inside


def test_shapes(model, tokens):
    seen = look_inside(model, tokens)
    assert seen.stream.shape == (2 * LAYERS + 1, 2, 7, HIDDEN) == (9, 2, 7, 96)
    assert seen.gate.shape == seen.up.shape == (LAYERS, 2, 7, 8 * HIDDEN // 3) == (4, 2, 7, 256)


def plain_norm(norm, x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


@torch.no_grad()
def by_hand(model, tokens):
    x = model.embed_tokens.weight[tokens] * HIDDEN**0.5
    stream, gate, up = [x], [], []
    for layer in model.layers:
        x = x + layer.self_attn(plain_norm(layer.input_layernorm, x))
        stream.append(x)
        normed = plain_norm(layer.post_attention_layernorm, x)
        gate.append(normed @ layer.mlp.gate_proj.weight.T)
        up.append(normed @ layer.mlp.up_proj.weight.T)
        h = gate[-1] / (1 + torch.exp(-gate[-1])) * up[-1]
        x = x + h @ layer.mlp.down_proj.weight.T
        stream.append(x)
    return tuple(torch.stack(each) for each in (stream, gate, up))


def test_what_passed_is_what_a_forward_pass_by_hand_gives(model, tokens):
    seen = look_inside(model, tokens)
    for each, expected in zip(seen, by_hand(model, tokens), strict=True):
        torch.testing.assert_close(each, expected, rtol=1e-9, atol=1e-9)
    gaps = seen.stream.diff(dim=0).abs().amax(dim=(1, 2, 3))
    assert gaps.min() > 0.01  # each sublayer writes: no two streams could be taken for another


def test_the_last_stream_gives_the_logits(model, tokens):
    seen = look_inside(model, tokens)
    with torch.no_grad():
        torch.testing.assert_close(model.head(model.norm(seen.stream[-1])), model(tokens))


def test_the_passages_can_be_looked_at():
    seen = look_inside(TinyLlama(), passages())
    assert seen.stream.shape == (9, 8, 64, 96) and all(each.isfinite().all() for each in seen)


def hooks(model):
    return [hook for module in model.modules() for hook in module._forward_hooks.values()]


def test_no_hook_is_left_behind_but_that_of_another(model, tokens):
    look_inside(model, tokens)
    assert hooks(model) == []

    def mine(*_):
        pass

    model.layers[1].mlp.up_proj.register_forward_hook(mine)
    look_inside(model, tokens)
    assert hooks(model) == [mine]


def test_nor_when_the_model_raises(model, tokens):
    with pytest.raises(IndexError):
        look_inside(model, tokens + BYTES)
    assert hooks(model) == []
    model.layers[2].mlp.down_proj.float()  # in the middle, when some of them have been called
    with pytest.raises(RuntimeError, match="dtype"):
        look_inside(model, tokens)
    assert hooks(model) == []


def test_looking_changes_nothing_and_takes_no_gradient(model, tokens):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, second = look_inside(model, tokens), look_inside(model, tokens)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other) and not one.requires_grad
    assert torch.is_grad_enabled()
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_norm_weights_stand_in_the_order_of_the_stream():
    model = TinyLlama()
    with torch.no_grad():
        for i, layer in enumerate(model.layers):
            layer.input_layernorm.weight.fill_(2 * i)
            layer.post_attention_layernorm.weight.fill_(2 * i + 1)
        model.norm.weight.fill_(2 * LAYERS)
    weights = norm_weights(model)
    assert weights.shape == (2 * LAYERS + 1, HIDDEN) and not weights.requires_grad
    assert torch.equal(weights, torch.arange(9.0)[:, None].expand(9, HIDDEN))
    weights.zero_()  # a copy: the model keeps its own
    assert model.norm.weight[0] == 8


# --- The model that was stored


@pytest.fixture
def stored():
    if not (inside.DATA / "tiny_llama.npz").exists():
        pytest.skip("tiny_llama.npz is not stored yet: make train")
    return trained_llama()


def test_the_stored_model_is_ready_to_be_read(stored):
    assert not any(module.training for module in stored.modules())
    assert {value.dtype for value in stored.state_dict().values()} == {torch.float32}
    assert all(value.isfinite().all() for value in stored.state_dict().values())


def test_it_knows_the_language_of_passages_it_has_not_read(stored):
    with torch.no_grad():
        assert loss_of(stored, passages()) < 1.3 < loss_of(TinyLlama(), passages())


def test_its_norms_have_learned(stored):
    weights = norm_weights(stored)
    assert (weights - 1).abs().amax(dim=-1).min() > 0.01  # each of the nine


class Trap:
    """Who unpickles it has run code that came with the file."""

    sprung = False

    def __reduce__(self):
        return spring, ()


def spring():
    Trap.sprung = True
    return torch.ones(HIDDEN)


def test_a_checkpoint_that_holds_a_pickle_is_refused(monkeypatch, tmp_path):
    arrays = {name: value.numpy() for name, value in TinyLlama().state_dict().items()}
    monkeypatch.setattr(inside, "DATA", tmp_path)
    np.savez_compressed(tmp_path / "tiny_llama.npz", **arrays)
    assert not trained_llama().training  # so far it is one that can be read
    arrays["norm.weight"] = np.array([Trap()], dtype=object)
    np.savez_compressed(tmp_path / "tiny_llama.npz", **arrays)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        trained_llama()
    assert not Trap.sprung


def test_norms_without_weights_are_refused():
    for model in (TinyLlama(norm="none"), TinyLlama(block="post")):
        with pytest.raises(ValueError, match="each norm must have a weight"):
            inside.norm_weights(model)


def test_other_models_are_not_looked_into():
    for ffn in ("ReLU", "GEGLU"):
        with pytest.raises(ValueError, match="each FFN must be SwiGLU, got"):
            inside.look_inside(TinyLlama(ffn=ffn), inside.passages())
    with pytest.raises(ValueError, match="norms must stand before"):
        inside.look_inside(TinyLlama(block="post"), inside.passages())
