"""How the helper speaks in a notebook: the same words as Markdown and as plain text."""

import sys


def note(sign, sentence, detail=""):
    """Show one line: a sign (✔ ✘ ○), a sentence and, set apart, a detail."""
    markdown(
        f"{sign} {sentence}" + (f" · *{detail}*" if detail else ""),
        f"{sign} {sentence}" + (f"  [{detail}]" if detail else ""),
    )


def markdown(text, plain):
    """Show Markdown where it is rendered and its plain form elsewhere; outside Jupyter, print."""
    from IPython.core.interactiveshell import InteractiveShell  # 0.1 s: not at import
    from IPython.display import display

    if InteractiveShell.initialized():
        display({"text/markdown": text, "text/plain": plain}, raw=True)
    else:
        say(plain)


def say(line):
    """Print a line; where the terminal has no ✔ or √, a question mark stands for it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "replace").decode(encoding))
