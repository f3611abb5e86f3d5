"""What every RMSNorm obeys, asked of several exercises. f: (x, weight, eps) -> y."""

import torch

from ..checker import Property, same
from ._inputs import also_changed, draw, spread


def _alone(f):
    x, one = draw(2, 3, 5).double(), torch.ones(5).double()
    if not same(*(f(x, one, 1e-6) for _ in range(2))):
        return "The same x gives another output the second time: nothing here is random or kept."
    others = also_changed(lambda x: f(x, one, 1e-6), x, (1, 1))
    if not others.any():
        return None
    where = ["of the other sequence", "of its own sequence"][int(others[1].any())]
    where = "of both sequences" if others.any(1).all() else where
    return (
        f"After one token has changed, {int(others.sum())} of the other 5 have too, {where}. Each "
        "token needs a statistic of its own: average over the features alone, `dim=-1`."
    )


def _scale(f):
    x, one = draw(2, 3, 5).double(), torch.ones(5).double()
    once, of_ten = f(x, one, 0.0), f(10 * x, one, 0.0)
    ratio = ((of_ten * once).sum() / once.square().sum()).item()
    if not once.any() or abs(ratio - 1) < 0.01:
        return None
    return (
        f"With x ten times larger the output changes by the factor {ratio:.3g}, not 1. Divide x, "
        "once, by something that grows as x does."
    )


def _direction(f):
    x = torch.tensor([[[1.0, -1.0, 3.0, 5.0]]]).double()
    y = f(x, torch.ones(4).double(), 1e-9)
    factor = (y / x).flatten()
    if factor.std() <= 1e-5 * factor.abs().mean():
        return "The output points against x: a sign is wrong." if factor[0] < 0 else None
    if factor.std() < 0.02 * factor.abs().mean():
        return (
            f"A token is divided by one number, but yours are from {1 / factor.max():.4f} to "
            f"{1 / factor.min():.4f}: that is rounding. Something is in 16 bits."
        )
    shown = ", ".join(f"{v:.3g}".replace("-", "−") for v in y.flatten().tolist())
    return (
        "(1, −1, 3, 5), of RMS 3, should become (0.333, −0.333, 1, 1.67) with weight one. Yours is "
        f"({shown}): its features are not divided by one and the same number."
    )


def _size(f):
    rms = {}
    for n in (4, 16):
        y = f(draw(1, 3, n).double(), torch.ones(n).double(), 0.0)
        rms[n] = y.square().mean().sqrt().item()
    if all(abs(r - 1) < 1e-3 for r in rms.values()):
        return None
    known = {0.5: "A factor √n is missing.", 2: "There is a factor √n too many."}
    known[1] = "Is there one factor too many, the same for every n?"
    otherwise = "Is it the *squares* of *all features* that are averaged, over n?"
    return (
        f"The RMS of the output should be 1 (weight one, eps zero). It is {rms[4]:.3g} for n = 4 "
        f"and {rms[16]:.3g} for n = 16. "
        f"{known.get(round(rms[16] / rms[4], 2), otherwise)}"
    )


def _weight(f):
    x, w = draw(2, 3, 5).double(), spread(5).double()
    plain, weighted, of_zeros = (f(x, v, 1e-6) for v in (torch.ones_like(w), w, 0 * w))
    if torch.allclose(weighted, plain * w, rtol=1e-4):
        return None
    if torch.allclose(weighted, plain, rtol=1e-4):
        return "The weight changes nothing. Multiply the normalised x by it."
    if of_zeros.abs().max() > 1e-6:
        return (
            "With a weight of zeros something is left. Is the weight added, or something added to "
            "it? It only multiplies."
        )
    if torch.allclose(f(x, 2 * w, 1e-6), weighted, rtol=1e-4):
        return (
            "Twice the weight changes nothing: its size is lost, as where it stands inside the "
            "statistic, which divides it out again. Multiply by the weight itself, at the end."
        )
    return (
        "The weight does not multiply feature by feature. f(x, weight) should be "
        "f(x, ones) · weight."
    )


def _zeros(f):
    y = f(torch.zeros(1, 1, 4), torch.ones(4), 1e-6)
    if not y.isfinite().all():
        return "A token of zeros becomes NaN or inf. `eps` under the root prevents 0/0."
    if y.abs().max() < 1e-6:
        return None
    return (
        f"A token of zeros should stay zero, and becomes {y[0, 0, 0]:.3g} with eps 1e-6. `eps` "
        "belongs to the divisor alone."
    )


def _eps(f):
    x, one = torch.tensor([[[1e-3, 1e-3, -1e-3, -1e-3]]]).double(), torch.ones(4).double()
    for eps, shown, right in ((3e-6, "3e-6", 0.5), (1e-2, "0.01", 0.0099995)):
        y = f(x, one, eps)[0, 0, 0].item()
        if abs(y / right - 1) > 1e-3:
            return (
                f"With features of ±0.001 and eps {shown} the output should be ±0.001/√(1e-6 + "
                f"{shown}) = ±{right:.3g}. It is {y:.3g}. `eps` is added to the mean square, under "
                "the root, as it is, and to nothing else."
            )
    return None


RULES = (
    Property("each token alone", _alone, "01 Do tokens see each other?"),
    Property("the size goes", _scale, "01 Four numbers by hand"),
    Property("one divisor for a token", _direction, "01 What does LayerNorm do besides?"),
    Property("the weight once, after the statistic", _weight, "01 What is `weight` for?"),
    Property("RMS one", _size, "02 Quiz: why is the length √n and not 1?"),
    Property("zeros stay zero", _zeros, "02 What does `eps` do?"),
    Property("eps under the root", _eps, "02 What does `eps` do?"),
)
