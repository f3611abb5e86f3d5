"""Wrong versions of the library's functions: real mistakes, each of which some claim must notice.

A version takes its function's place by `__code__`, so that every copy of the name is reached; it
runs with the library module's globals (there `_upcast` is `layers._upcast`) and its closure.
To add a mistake, write it here: test_claims_can_fail.py says which claims it breaks.
"""

# ruff: noqa: F821  the names come from the library's module

import contextlib

from course_utils import layers, measure

# --- rms_norm: what the divisor is


def rms_norm_mean_over_everything(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean() + eps)
    return y if weight is None else y * weight


def rms_norm_mean_over_the_sequence(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=(-2, -1)[-x.ndim :], keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_mean_over_the_first_axis(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=0, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_without_keepdim(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1) + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_sum(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_variance(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.var(dim=-1, keepdim=True, correction=0) + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_unbiased_variance_of_centred_x(x, weight=None, eps=1e-6):
    x = x - x.mean(dim=-1, keepdim=True)
    y = x * torch.rsqrt(x.var(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_that_centres(x, weight=None, eps=1e-6):
    x = x - x.mean(dim=-1, keepdim=True)
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_square_of_the_mean(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.mean(dim=-1, keepdim=True).square() + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_mean_of_absolute_values(x, weight=None, eps=1e-6):
    y = x / (x.abs().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_by_the_largest(x, weight=None, eps=1e-6):
    y = x / (x.abs().amax(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


# --- rms_norm: roots and eps


def rms_norm_multiplied_by_the_root(x, weight=None, eps=1e-6):
    y = x * torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_without_root(x, weight=None, eps=1e-6):
    y = x / (x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_with_two_roots(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True).sqrt() + eps)
    return y if weight is None else y * weight


def rms_norm_eps_outside(x, weight=None, eps=1e-6):
    y = x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)
    return y if weight is None else y * weight


def rms_norm_eps_forgotten(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True))
    return y if weight is None else y * weight


def rms_norm_eps_fixed(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    return y if weight is None else y * weight


def rms_norm_eps_as_a_floor(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True).clamp_min(eps))
    return y if weight is None else y * weight


def rms_norm_zeros_kept_from_nan(x, weight=None, eps=1e-6):
    y = (x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)).nan_to_num()
    return y if weight is None else y * weight


# --- rms_norm: dtype, weight, input


def rms_norm_without_upcast(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_upcast_after_the_square(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().float().mean(dim=-1, keepdim=True) + eps)
    return y.to(x.dtype) if weight is None else y.to(x.dtype) * weight


def rms_norm_weight_ignored(x, weight=None, eps=1e-6):
    h = _upcast(x)
    return (h * torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + eps)).to(x.dtype)


def rms_norm_weight_before_the_statistic(x, weight=None, eps=1e-6):
    x = x if weight is None else x * weight
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def rms_norm_weight_twice(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight * weight


def rms_norm_one_plus_weight(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * (1 + weight)


def rms_norm_in_place(x, weight=None, eps=1e-6):
    x.mul_(torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps))
    return x if weight is None else x * weight


def rms_norm_that_changes_nothing(x, weight=None, eps=1e-6):
    return x if weight is None else x * weight


def rms_norm_that_flips_the_sign(x, weight=None, eps=1e-6):
    y = -x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def rms_norm_all_signs(x, weight=None, eps=1e-6):
    y = x.sign()
    return y if weight is None else y * weight


def rms_norm_detached(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.detach().square().mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


# --- layer_norm


def layer_norm_without_centring(x, weight=None, bias=None, eps=1e-5):
    return rms_norm(x, weight, eps)


def layer_norm_centred_over_everything(x, weight=None, bias=None, eps=1e-5):
    return rms_norm(x - x.mean(), weight, eps)


def layer_norm_by_the_unbiased_variance(x, weight=None, bias=None, eps=1e-5):
    h = x - x.mean(dim=-1, keepdim=True)
    return h * torch.rsqrt(x.var(dim=-1, keepdim=True) + eps)


def layer_norm_that_only_centres(x, weight=None, bias=None, eps=1e-5):
    return x - x.mean(dim=-1, keepdim=True)


# --- RMSNorm, the module


class Inits:  # in a class, so that super() finds the closure that it needs
    def module_init_with_random_weight(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1 + torch.randn(dim) / dim**0.5)

    def module_init_with_zeros(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def module_init_with_one_weight_for_all(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(1))

    def module_init_with_a_fixed_eps(self, dim, eps=1e-6):
        super().__init__()
        self.eps = 1e-5
        self.weight = nn.Parameter(torch.ones(dim))


def module_forward_without_weight(self, x):
    return rms_norm(x, None, self.eps)


def module_forward_with_frozen_weight(self, x):
    return rms_norm(x, self.weight.detach(), self.eps)


# --- measure


def rms_of_all(x):
    return x.double().square().mean().sqrt()


def rms_without_root(x):
    return x.double().square().mean(dim=-1)


def rms_by_the_sum(x):
    return x.double().square().sum(dim=-1).sqrt()


def with_rms_unscaled(x, value):
    return x


def relative_change_without_reference(after, before):
    return (after.double() - before.double()).norm().item()


def relative_change_none(after, before):
    return 0.0


def outcome_always_an_error(make, right, within=1e-5):
    return "error"


def outcome_always_right(make, right, within=1e-5):
    return "same numbers"


TARGETS = {
    "rms_norm_": layers.rms_norm,
    "layer_norm_": layers.layer_norm,
    "module_init_": layers.RMSNorm.__init__,
    "module_forward_": layers.RMSNorm.forward,
    "with_rms_": measure.with_rms,
    "rms_": measure.rms,
    "relative_change_": measure.relative_change,
    "outcome_": measure.outcome,
}


def _target(name):
    """The library function a version stands in for: the longest matching beginning of its name."""
    prefixes = [prefix for prefix in TARGETS if name.startswith(prefix)]
    return TARGETS[max(prefixes, key=len)] if prefixes else None


WRONG = {
    name: f
    for name, f in [*globals().items(), *vars(Inits).items()]
    if callable(f) and _target(name)
}


@contextlib.contextmanager
def in_place(name):
    """Let the wrong version run in the place of the library's function."""
    target, wrong = _target(name), WRONG[name]
    right = target.__code__
    if wrong.__code__.co_freevars != right.co_freevars:
        raise ValueError(f"{name} has another closure than the function it stands in for")
    target.__code__ = wrong.__code__
    try:
        yield
    finally:
        target.__code__ = right
