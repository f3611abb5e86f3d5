"""The tiny Llama against blocks put together by hand, its text, and each step of its training."""

import copy
import itertools
import math
import platform
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import exercises, layers, runs
from course_utils.tiny_llama import (
    BATCH,
    BLOCKS,
    BYTES,
    EPS,
    FFNS,
    GATES,
    HEADS,
    HIDDEN,
    LAYERS,
    MLPS,
    NORMS,
    STEPS,
    WARMUP,
    WINDOW,
    TinyLlama,
    as_text,
    as_tokens,
    learning_rate,
    loss_of,
    post_norm_block,
    python_text,
    train,
    validation_loss,
)

ALL = list(itertools.product(NORMS, FFNS, BLOCKS))
ALL_IDS = ["-".join(names) for names in ALL]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def tokens():
    return torch.randint(BYTES, (2, 7), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def data():
    return torch.randint(BYTES, (500,), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def python():
    return python_text()


def off_ones(model):
    """The model in float64, its vectors no longer ones and zeros: each of them must be used."""
    g = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.uniform_(parameter, 0.5, 2, generator=g)
    return model.double()


# --- The plain model


def test_the_plain_model_is_a_stack_of_the_courses_blocks(tokens):
    model = TinyLlama()
    state = model.state_dict()
    blocks = [layers.LlamaBlock(96, 256, 4, eps=1e-5) for _ in range(4)]
    for i, block in enumerate(blocks):
        start = f"layers.{i}."
        block.load_state_dict(
            {k.removeprefix(start): state.pop(k) for k in list(state) if k.startswith(start)}
        )
    embedding, weight = state.pop("embed_tokens.weight"), state.pop("norm.weight")
    assert not state  # nothing else
    x = embedding[tokens] * 96**0.5
    for block in blocks:
        x = block(x)
    logits = layers.rms_norm(x, weight, 1e-5) @ embedding.T
    assert logits.shape == (2, 7, 256)
    assert torch.equal(model(tokens), logits)


def test_its_parts_are_those_of_the_course():
    model = TinyLlama()
    for layer in model.layers:
        assert type(layer.mlp) is layers.SwiGLU and type(layer.self_attn) is layers.Attention
        norms = layer.input_layernorm, layer.post_attention_layernorm
        assert [type(norm) for norm in norms] == [layers.RMSNorm] * 2
        assert layer.wiring is layers.llama_block
    assert type(model.norm) is layers.RMSNorm and model.norm.eps == EPS


def test_input_and_head_are_one_tensor():
    model = TinyLlama()
    outside = {name for name, _ in model.named_parameters() if not name.startswith("layers.")}
    assert outside == {"embed_tokens.weight", "norm.weight"}
    with torch.no_grad():
        model.embed_tokens.weight.zero_()
        model.embed_tokens.weight[3, 5] = 2.0
    x = model.embed(torch.tensor([[3, 4]]))
    assert x[0, 0, 5] == 2 * HIDDEN**0.5 and x.count_nonzero() == 1
    logits = model.head(torch.ones(1, 1, HIDDEN))
    assert logits[0, 0, 3] == 2 and logits.count_nonzero() == 1


def test_a_byte_that_is_not_there_is_learned_about_too():
    """Its row of the embedding is never read: the head alone can have reached it."""
    model = TinyLlama()
    loss_of(model, torch.tensor([[1, 2, 1]])).backward()
    assert model.embed_tokens.weight.grad[9].abs().max() > 0


# --- Every variant


@pytest.mark.parametrize(("norm", "ffn", "block"), ALL, ids=ALL_IDS)
def test_no_logit_knows_a_later_byte(norm, ffn, block, tokens):
    model = off_ones(TinyLlama(norm, ffn, block))
    with torch.no_grad():
        before = model(tokens[:1])
        for t in (0, 3, 6):
            other = tokens[:1].clone()
            other[0, t] = (other[0, t] + 1) % BYTES
            moved = (model(other) - before).abs().amax(dim=(0, 2)) > 1e-9
            assert moved.tolist() == [at >= t for at in range(7)]


@pytest.mark.parametrize(("norm", "ffn", "block"), ALL, ids=ALL_IDS)
def test_every_parameter_has_a_gradient(norm, ffn, block):
    model = TinyLlama(norm, ffn, block)
    windows = torch.randint(BYTES, (2, 9), generator=torch.Generator().manual_seed(3))
    loss_of(model, windows).backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("variant", runs.VARIANTS, ids="-".join)
def test_all_variants_have_one_size(variant):
    model, plain = TinyLlama(*variant), TinyLlama()
    assert abs(count(model) / count(plain) - 1) < 0.01
    assert {count(layer.mlp) for layer in model.layers} == {8 * HIDDEN**2} == {73_728}
    assert len(model.layers) == LAYERS and model.layers[0].self_attn.head_dim * HEADS == HIDDEN


def test_no_matrix_has_a_bias():
    for variant in runs.VARIANTS:
        linear = [m for m in TinyLlama(*variant).modules() if isinstance(m, nn.Linear)]
        assert len(linear) >= 6 * LAYERS and all(m.bias is None for m in linear)


def plain_gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


ACTIVATIONS = {
    "ReLU": lambda x: x * (x > 0),
    "GELU": plain_gelu,
    "SiLU": lambda x: x / (1 + torch.exp(-x)),
    "GLU": lambda x: 1 / (1 + torch.exp(-x)),
    "ReGLU": lambda x: x * (x > 0),
    "GEGLU": plain_gelu,
    "SwiGLU": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("kind", FFNS)
def test_each_ffn_is_its_formula(kind):
    mlp = TinyLlama(ffn=kind).double().layers[1].mlp
    x = 9 * torch.randn(2, 5, HIDDEN, generator=torch.Generator().manual_seed(4)).double()
    activation = ACTIVATIONS[kind]
    up = x @ mlp.up_proj.weight.T
    if kind in MLPS:
        h, width = activation(up), 384
    else:
        h, width = activation(x @ mlp.gate_proj.weight.T) * up, 256
    assert h.shape == (2, 5, width)
    torch.testing.assert_close(mlp(x), h @ mlp.down_proj.weight.T, rtol=1e-9, atol=1e-10)


def test_the_kinds_are_those_of_the_formulas():
    assert (*MLPS, *GATES) == FFNS == tuple(ACTIVATIONS)


def plain_norm(kind, module, x):
    if kind == "none":
        return x
    if kind == "RMSNorm":
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * module.weight
    variance = x.var(-1, correction=0, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt() * module.weight + module.bias


@pytest.mark.parametrize(("norm", "place"), list(itertools.product(NORMS, BLOCKS)))
def test_each_norm_is_its_formula_in_each_place(norm, place, tokens):
    model = off_ones(TinyLlama(norm=norm, block=place))
    x = model.embed_tokens.weight[tokens] * HIDDEN**0.5
    for layer in model.layers:
        first, second = layer.input_layernorm, layer.post_attention_layernorm
        if place == "pre":
            x = x + layer.self_attn(plain_norm(norm, first, x))
            x = x + layer.mlp(plain_norm(norm, second, x))
        else:
            x = plain_norm(norm, first, x + layer.self_attn(x))
            x = plain_norm(norm, second, x + layer.mlp(x))
    if place == "pre":  # after post-norm there is no last one
        x = plain_norm(norm, model.norm, x)
    logits = x @ model.embed_tokens.weight.T
    torch.testing.assert_close(model(tokens), logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("norm", "place", "vectors"),
    [
        ("RMSNorm", "pre", 9),
        ("RMSNorm", "post", 8),
        ("LayerNorm", "pre", 18),
        ("LayerNorm", "post", 16),
        ("none", "pre", 0),
        ("none", "post", 0),
    ],
)
def test_vectors_start_as_ones_and_biases_as_zeros(norm, place, vectors):
    named = dict(TinyLlama(norm=norm, block=place).named_parameters())
    named = {name: p for name, p in named.items() if p.ndim == 1}
    assert len(named) == vectors
    for name, p in named.items():
        assert torch.equal(p, torch.full((HIDDEN,), 0.0 if name.endswith("bias") else 1.0))


@pytest.mark.parametrize(("norm", "place"), list(itertools.product(NORMS, BLOCKS)))
def test_norms_stand_in_the_order_of_the_stream(norm, place, tokens):
    model = TinyLlama(norm=norm, block=place)
    norms, called = model.norms(), []
    assert len({id(module) for module in norms}) == len(norms) == 2 * LAYERS + 1
    for module in norms:
        module.register_forward_hook(lambda module, *_: called.append(module))
    model(tokens)
    assert [id(module) for module in called] == [id(module) for module in norms]
    vectors = {id(p) for p in model.parameters() if p.ndim == 1}
    assert {id(p) for module in norms for p in module.parameters()} == vectors  # none left out


def test_the_last_norm_is_none_after_post_norm():
    *others, last = TinyLlama(block="post").norms()
    assert type(last) is nn.Identity
    assert {type(norm) for norm in others} == {layers.RMSNorm}
    model = TinyLlama()
    assert model.norms()[-1] is model.norm
    assert {type(norm) for norm in model.norms()} == {layers.RMSNorm}


# --- How it starts


def states_equal(one, other):
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("variant", [runs.LLAMA, runs.Variant("LayerNorm", "ReLU", "post")])
def test_a_seed_is_a_start(variant):
    assert states_equal(TinyLlama(*variant, seed=3), TinyLlama(*variant, seed=3))
    one, other = TinyLlama(*variant, seed=3), TinyLlama(*variant, seed=4)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert a.ndim == 1 or not torch.equal(a, b)
    assert states_equal(TinyLlama(*variant), TinyLlama(*variant, seed=0))


def test_torchs_own_generator_neither_decides_nor_moves():
    torch.manual_seed(5)
    before, one = torch.get_rng_state(), TinyLlama(seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert states_equal(one, TinyLlama(seed=1))


@pytest.mark.parametrize("seed", range(3))
def test_the_stream_starts_at_length_one(seed):
    x = TinyLlama(seed=seed).embed(torch.arange(BYTES)[None]).detach()
    assert x.square().mean().sqrt().item() == pytest.approx(1, abs=0.02)
    assert x.square().mean(-1).sqrt().sub(1).abs().max() < 0.4  # of 256 vectors, each by itself


@pytest.mark.parametrize("ffn", ["ReLU", "SwiGLU"])
def test_variances_at_the_start(ffn):
    """The smallest matrix has 9216 numbers: its spread is known to 0.7 %."""
    inputs = {"embed_tokens": 96, "q_proj": 96, "k_proj": 96, "v_proj": 96}
    inputs |= {"gate_proj": 96, "up_proj": 96, "o_proj": 96 * 8}
    inputs["down_proj"] = (384 if ffn == "ReLU" else 256) * 8  # two writers in each of 4 layers
    matrices = {n: p for n, p in TinyLlama(ffn=ffn).named_parameters() if p.ndim == 2}
    assert len(matrices) == 1 + LAYERS * (6 if ffn == "ReLU" else 7)
    for name, p in matrices.items():
        scaled = p * inputs[name.split(".")[-2]] ** 0.5
        assert scaled.std().item() == pytest.approx(1, abs=0.04), name
        assert scaled.mean().abs() < 0.06, name


# --- Functions in place of names


def mistakes(exercise, part):
    known = {m.id: m.wrong for m in exercises.load(exercise).mistakes}
    return [pytest.param(known[name], id=name) for name in runs.MISTAKES[part]]


def outcome(function):
    """What it returns, or what kind of error it raises."""
    try:
        return function()
    except RuntimeError as error:
        return str(error)


def same_outcome(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one.shape == other.shape and torch.equal(one, other)


@pytest.mark.parametrize("wrong", mistakes("rms_norm", "norm"))
def test_a_wrong_norm_stands_in_every_place(wrong):
    model = TinyLlama(norm=wrong)
    x = torch.randn(2, 5, HIDDEN, generator=torch.Generator().manual_seed(7))
    weight = torch.linspace(0.5, 2, HIDDEN)
    norms = model.norms()
    assert len({id(norm) for norm in norms}) == 9
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones(HIDDEN))
        with torch.no_grad():
            norm.weight.copy_(weight)
        expected = outcome(lambda: wrong(x, weight, 1e-5))
        assert same_outcome(outcome(lambda norm=norm: norm(x)), expected)


@pytest.mark.parametrize("wrong", mistakes("swiglu_ffn", "ffn"))
def test_a_wrong_ffn_stands_in_every_block(wrong):
    model = TinyLlama(ffn=wrong)
    x = torch.randn(2, 5, HIDDEN, generator=torch.Generator().manual_seed(8))
    for layer in model.layers:
        gate, up, down = (
            getattr(layer.mlp, f"{name}_proj").weight for name in ("gate", "up", "down")
        )
        assert gate.shape == up.shape == (256, HIDDEN) and down.shape == (HIDDEN, 256)
        expected = outcome(lambda w=(gate, up, down): wrong(x, *w))
        assert same_outcome(outcome(lambda layer=layer: layer.mlp(x)), expected)


@pytest.mark.parametrize("wrong", mistakes("llama_block", "block"))
def test_a_wrong_block_has_the_right_parts(wrong):
    model = off_ones(TinyLlama(block=wrong))
    x = torch.randn(2, 5, HIDDEN, generator=torch.Generator().manual_seed(9)).double()
    for layer in model.layers:
        parts = layer.self_attn, layer.mlp, layer.input_layernorm, layer.post_attention_layernorm
        assert torch.equal(layer(x), wrong(x, *parts))
        assert not torch.equal(layer(x), layers.llama_block(x, *parts))
    assert type(model.norm) is layers.RMSNorm


def test_right_functions_are_the_plain_model_again(tokens):
    plain = off_ones(TinyLlama())
    for part in (
        {"norm": layers.rms_norm},
        {"ffn": layers.gated_ffn},
        {"block": layers.llama_block},
    ):
        model = TinyLlama(**part).double()
        model.load_state_dict(plain.state_dict())
        torch.testing.assert_close(model(tokens), plain(tokens), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"norm": "rmsnorm"}, "norm must be one of LayerNorm, RMSNorm, none or a function, got "),
        ({"norm": None}, "norm must be one of LayerNorm, RMSNorm, none or a function, got "),
        ({"ffn": "relu"}, f"ffn must be one of {', '.join(FFNS)} or a function, got "),
        ({"ffn": ["ReLU"]}, f"ffn must be one of {', '.join(FFNS)} or a function, got "),
        ({"block": "Pre"}, "block must be one of pre, post or a function, got "),
        ({"block": 0}, "block must be one of pre, post or a function, got "),
    ],
)
def test_an_unknown_name_is_refused(argument, words):
    (value,) = argument.values()
    with pytest.raises(ValueError, match=f"^{re.escape(words + repr(value))}$"):
        TinyLlama(**argument)


# --- The text


def words_of(tokens):
    return bytes(tokens.tolist()).decode()


def test_text_keeps_each_paragraph_once_and_in_order():
    text = as_text("one\n\ntwo\n\none\n\n three\nlines\n\ntwo\n\nfour")
    assert (
        words_of(torch.cat([text.train, text.validation])) == "one\n\ntwo\n\n three\nlines\n\nfour"
    )


@pytest.mark.parametrize("length", [10, 1000, 1009])
def test_the_last_tenth_is_for_validation(length):
    text = as_text("".join(chr(97 + i % 26) for i in range(length)))
    assert len(text.train) == length * 9 // 10 and len(text.train) + len(text.validation) == length


def test_the_name_of_a_text_changes_with_it_alone():
    one, again, other = as_text("a\n\nb"), as_text("a\n\nb\n\na"), as_text("a\n\nc")
    assert one.sha == again.sha != other.sha
    assert as_text("a\n\nb").sha != as_text("b\n\na").sha
    assert re.fullmatch("[0-9a-f]{12}", one.sha) and one.python == platform.python_version()


def test_no_paragraph_of_pythons_is_in_both_parts(python):
    """The one that is cut in two aside: its halves are no paragraphs."""
    train, validation = (bytes(part.tolist()).split(b"\n\n") for part in python[:2])
    train, validation = train[:-1], validation[1:]
    assert len(train) > 1000 and len(validation) > 100
    assert len({*train, *validation}) == len(train) + len(validation)


def test_pythons_text_is_all_of_the_topics(python):
    from pydoc_data.topics import topics

    kept = set(words_of(torch.cat(python[:2])).split("\n\n"))
    paragraphs = set("\n\n".join(topics[name] for name in sorted(topics)).split("\n\n"))
    assert kept == paragraphs
    assert python.sha == python_text().sha


@pytest.mark.parametrize("words", ["", "plain", "√(mean(x²) + ε) – Ünïcödé 🙂", "\x00\n\x7f"])
def test_tokens_are_bytes(words):
    numbers = as_tokens(words)
    assert numbers.dtype == torch.int64 and numbers.shape == (len(words.encode()),)
    assert words_of(numbers) == words
    assert torch.equal(as_tokens(words.encode()), numbers)


# --- The learning rate


def test_the_rate_rises_in_a_line_and_falls_in_half_a_cosine():
    rates = [learning_rate(step, 0.5) for step in range(STEPS)]
    assert rates[0] == 0.5 / WARMUP and rates[WARMUP - 1] == rates[WARMUP] == 0.5 == max(rates)
    ups = [b - a for a, b in itertools.pairwise(rates[:WARMUP])]
    assert ups == pytest.approx([0.5 / WARMUP] * (WARMUP - 1))
    falls = rates[WARMUP:]
    assert falls == sorted(set(falls), reverse=True)  # strictly
    assert learning_rate((WARMUP + STEPS) // 2, 0.5) == pytest.approx(0.25)
    assert 0 < rates[-1] < 0.5e-4 and learning_rate(STEPS, 0.5) == 0


def test_a_quarter_of_the_way_down_the_cosine():
    expected = (1 + math.sqrt(0.5)) / 2
    assert learning_rate(10 + 25, 1.0, warmup=10, steps=110) == pytest.approx(expected)


def test_without_warm_up_the_first_step_is_at_the_peak():
    assert learning_rate(0, 0.3, warmup=0, steps=10) == 0.3
    assert learning_rate(10, 0.3, warmup=0, steps=10) == 0


# --- Training


def test_loss_is_the_mean_surprise_of_each_next_byte(tokens):
    model = TinyLlama()
    with torch.no_grad():
        p = model(tokens[:, :-1]).double().softmax(-1)
        loss = loss_of(model, tokens).item()
    surprises = [-math.log(p[b, t, tokens[b, t + 1]]) for b in range(2) for t in range(6)]
    assert loss == pytest.approx(sum(surprises) / 12, rel=1e-5)


def test_training_yields_the_loss_of_before_the_step_and_waits(data):
    model = TinyLlama()
    seen = []
    model.register_forward_pre_hook(lambda _, read: seen.append(read[0]))
    before = copy.deepcopy(model.state_dict())
    training = train(model, data, 1e-2, 0, warmup=0, steps=5)
    assert not seen and states_equal(model, TinyLlama())  # nothing before it is asked for
    first = next(training)
    assert len(seen) == 1 and not states_equal(model, TinyLlama())
    at_step_two = copy.deepcopy(model.state_dict())
    second = next(training)
    assert len(seen) == 2
    for loss, state, read in ((first, before, seen[0]), (second, at_step_two, seen[1])):
        model.load_state_dict(state)
        targets = told(data, read)
        with torch.no_grad():
            logits = model(read)
        assert F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item() == loss


def told(data, read):
    """The windows one byte later. The data repeats no window, so that its place is known."""
    windows = data.unfold(0, WINDOW, 1)
    starts = [(windows == row).all(dim=1).nonzero().item() for row in read]
    return torch.stack([data[start + 1 : start + 1 + WINDOW] for start in starts])


def test_training_stops_after_its_steps(data):
    assert len(list(train(TinyLlama(), data, 1e-3, 0, warmup=0, steps=2))) == 2


def losses(data, variant=(), seed=0, steps=4):
    return list(train(TinyLlama(*variant), data, 1e-2, seed, warmup=0, steps=steps))


def test_training_is_the_same_each_time_and_another_with_another_seed(data):
    first = losses(data)
    torch.manual_seed(99)  # torch's own generator has no say
    assert losses(data) == first
    assert losses(data, seed=1)[0] != first[0]  # the same start, other windows


def test_training_leaves_torchs_generator_alone(data):
    before = torch.get_rng_state()
    losses(data, steps=1)
    assert torch.equal(torch.get_rng_state(), before)


def windows_of(data, variant, seed):
    model, seen = TinyLlama(*variant), []
    model.register_forward_pre_hook(lambda _, read: seen.append(read[0]))
    list(train(model, data, 1e-3, seed, warmup=0, steps=3))
    return torch.stack(seen)


def test_the_same_seed_draws_the_same_windows_for_other_models(data):
    one = windows_of(data, runs.LLAMA, 5)
    assert one.shape == (3, BATCH, WINDOW)
    assert torch.equal(one, windows_of(data, runs.Variant("none", "ReLU"), 5))
    assert not torch.equal(one, windows_of(data, runs.LLAMA, 6))
    assert not torch.equal(one[0], one[1])


def test_every_byte_can_be_drawn_and_none_beyond(data):
    """66 bytes hold two windows with what follows them: the last byte is told, never read."""
    read = windows_of(data[: WINDOW + 2], runs.LLAMA, 0).flatten(0, 1)
    starts = {tuple(row.tolist()) for row in read}
    assert starts == {tuple(data[i : i + WINDOW].tolist()) for i in (0, 1)}
    list(train(TinyLlama(), data[: WINDOW + 1], 1e-3, 0, warmup=0, steps=1))  # and 65 hold one


@pytest.mark.parametrize("norm", NORMS)
def test_training_is_adamw_by_hand(norm, data):
    """Three steps in float64: β, ε, decay on matrices alone, gradients clipped, the rates."""
    model = off_ones(TinyLlama(norm=norm))
    mine = copy.deepcopy(model)
    seen, peak = [], 3e-3
    model.register_forward_pre_hook(lambda _, read: seen.append(read[0]))
    list(train(model, data, peak, 0, warmup=2, steps=3))
    parameters = list(mine.parameters())
    means = [torch.zeros_like(p) for p in parameters]
    squares = [torch.zeros_like(p) for p in parameters]
    lengths = []
    for step, read in enumerate(seen, start=1):
        rate = peak / 2 if step == 1 else peak
        logits = mine(read)
        loss = F.cross_entropy(logits.flatten(0, 1), told(data, read).flatten())
        gradients = torch.autograd.grad(loss, parameters)
        lengths.append(math.sqrt(sum(g.square().sum().item() for g in gradients)))
        shrink = min(1, 1 / (lengths[-1] + 1e-6))
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            m.mul_(0.9).add_(0.1 * shrink * g)
            v.mul_(0.95).add_(0.05 * (shrink * g) ** 2)
            decay = 0.1 if p.ndim == 2 else 0.0
            step_taken = (m / (1 - 0.9**step)) / ((v / (1 - 0.95**step)).sqrt() + 1e-8)
            with torch.no_grad():
                p.mul_(1 - rate * decay).sub_(rate * step_taken)
    assert max(lengths) > 1  # something was clipped
    for (name, p), q in zip(model.named_parameters(), parameters, strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-9, msg=name)


@pytest.mark.parametrize("variant", runs.VARIANTS, ids="-".join)
def test_the_first_steps_bring_the_loss_down(variant, python):
    """Ten steps for each; thirty for the plain model below."""
    training = list(train(TinyLlama(*variant), python.train, 4e-3, 0, warmup=5, steps=10))
    assert all(map(math.isfinite, training))
    assert training[-1] < training[0] - 0.5


def test_thirty_steps_bring_the_loss_far_down(python):
    model = TinyLlama()
    before = validation_loss(model, python.validation)
    training = list(itertools.islice(train(model, python.train, 4e-3, 0), 30))
    after = validation_loss(model, python.validation)
    # 256 bytes alike would give ln 256, 5.5; frequencies of bytes alone about 3.3.
    assert before > math.log(256) and after < before - 3 and after < 4
    assert abs(after - sum(training[-3:]) / 3) < 0.5


# --- The validation loss


def test_validation_has_no_luck_and_takes_no_gradient(data):
    model, before, traced = TinyLlama(), torch.get_rng_state(), []
    model.register_forward_hook(lambda _, read, logits: traced.append(logits.requires_grad))
    one = validation_loss(model, data)
    assert type(one) is float and one == validation_loss(model, data)
    assert torch.equal(torch.get_rng_state(), before)
    assert traced and not any(traced) and all(p.grad is None for p in model.parameters())
    assert states_equal(model, TinyLlama())


@pytest.mark.parametrize(("length", "windows"), [(200, 128), (200, 5), (65, 3)])
def test_validation_windows_lie_evenly_from_first_to_last_byte(length, windows):
    model, seen = TinyLlama(), []
    model.register_forward_pre_hook(lambda _, read: seen.append(read[0]))
    data = torch.arange(length)  # each byte says where it stands
    loss = validation_loss(model, data, windows)
    read = torch.cat(seen)
    assert torch.equal(read, read[:, :1] + torch.arange(WINDOW))
    starts = read[:, 0]
    assert len(starts) == windows and starts[0] == 0 and starts[-1] == length - WINDOW - 1
    gaps = starts.diff()
    assert gaps.max() - gaps.min() <= 1
    with torch.no_grad():
        logits = model(read)
    expected = F.cross_entropy(logits.flatten(0, 1), (read + 1).flatten())
    assert loss == pytest.approx(expected.item(), rel=1e-6)


# --- Bad input


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(norm=torch.nn.LayerNorm), "norm must be one of"),
        (dict(norm=torch.nn.LayerNorm(96)), "norm must be one of"),
        (dict(ffn=torch.nn.Linear(96, 96)), "ffn must be one of"),
        (dict(block=layers.LlamaBlock), "block must be one of"),
        (dict(seed="7"), "seed must be a whole number"),
        (dict(seed=1.0), "seed must be a whole number"),
        (dict(seed=-1), "seed must be a whole number"),
        (dict(seed=2**70), "seed must be a whole number"),
    ],
)
def test_a_model_of_something_else_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        TinyLlama(**wrong)


@pytest.mark.parametrize(
    "tokens",
    ["Hello", b"Hello", [1, 2], as_tokens("Hello"), torch.zeros(2, 5), torch.zeros(1, 2, 3)],
)
def test_tokens_of_another_form_are_refused(tokens):
    with pytest.raises(ValueError, match=r"tokens must be whole numbers, \(B, T\)"):
        TinyLlama()(tokens)


def test_data_of_another_form_is_refused_at_once(python, data):
    for call in (
        lambda d: train(TinyLlama(), d, 1e-3, 0),
        lambda d: validation_loss(TinyLlama(), d),
    ):
        with pytest.raises(TypeError, match="got the whole Text"):
            call(python)
        for wrong in ("words", [1] * 100, data.float(), data[None]):
            with pytest.raises(TypeError, match="data must be a vector of whole numbers"):
                call(wrong)
        with pytest.raises(ValueError, match="longer than a window of 64 bytes, got 64"):
            call(data[:WINDOW])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (dict(peak=0), "peak must be a finite rate above zero"),
        (dict(peak=math.inf), "peak must be a finite rate above zero"),
        (dict(peak=math.nan), "peak must be a finite rate above zero"),
        (dict(seed=0.5), "seed must be a whole number"),
        (dict(steps=-3), "steps must be a whole number"),
        (dict(warmup=1.5), "warmup must be a whole number"),
        (dict(steps=20), "warmup must be less than steps, got 40 of 20"),
    ],
)
def test_what_cannot_be_trained_with_is_refused_at_once(wrong, said, data):
    with pytest.raises(ValueError, match=said):
        train(TinyLlama(), data, **{"peak": 1e-3, "seed": 0} | wrong)


def test_the_post_norm_block_itself_is_post(data):
    by_name, by_function = TinyLlama(block="post"), TinyLlama(block=post_norm_block)
    assert type(by_function.norm) is type(by_name.norm)
    tokens = data[None, :8]
    assert torch.equal(by_name(tokens), by_function(tokens))
