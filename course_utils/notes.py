"""How the helper speaks in a notebook: the same words as Markdown and as plain text."""


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
        print(plain)
