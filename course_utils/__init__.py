"""Helpers for the RMSNorm and SwiGLU notebooks: `help(course_utils.layers)` is a good start.

A name is imported when it is first asked for, so that `python -m course_utils` can speak even where
torch is missing, and drawing and widgets cost nothing before something is drawn.
"""

import importlib

_HOME = {
    **dict.fromkeys(("above", "below", "claim", "near", "predict", "recap", "same"), "claims"),
    **dict.fromkeys(("check", "help_with"), "exercises"),
    **dict.fromkeys(("RMSNorm", "layer_norm", "rms_norm"), "layers"),
    **dict.fromkeys(("SwiGLU", "FusedSwiGLU", "LlamaBlock"), "layers"),
    **dict.fromkeys(("silu", "swish", "gated_ffn", "llama_block", "llama_stack"), "layers"),
    **dict.fromkeys(("ModelConfig", "intermediate_size", "ffn_params"), "sizes"),
    **dict.fromkeys(("model_params", "params_by_part", "published_models"), "sizes"),
}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__():
    return [*globals(), *__all__]
