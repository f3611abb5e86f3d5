"""Helpers for the RMSNorm and SwiGLU notebooks: `help(course_utils.layers)` is a good start.

Importing this costs little beyond torch: drawing (`plots`) and widgets (`explorers`) come
only when a notebook asks for them.
"""

from .claims import above, below, claim, near, predict, recap, same
from .layers import RMSNorm, layer_norm, rms_norm

__all__ = [
    "RMSNorm",
    "above",
    "below",
    "claim",
    "layer_norm",
    "near",
    "predict",
    "recap",
    "rms_norm",
    "same",
]
