"""explore(figure, update, …): the only file that wires widgets.

The figure is drawn once. When a control moves, the still background is restored, only the
animated artists are drawn, and the picture goes to the page as one JPEG at twice its size. A PNG
takes several times as long to encode. Colour is kept at the shown size: a page decodes that sooner.
All this passes nbval, which an Output widget does not.
"""

import html
import io
from math import isclose, log10

import ipywidgets as widgets
from IPython.display import display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from traitlets import Any, TraitError, Unicode, observe, validate

from .plots import DescribedFigure

VIEW = "application/vnd.jupyter.widget-view+json"
SCALE = 2  # pixels per shown pixel
LABEL = "110px"
FITS = {"max_width": "calc(100% - 4px)"}  # of a narrow window; widgets have margins of 2 px
LOOK = {"style": {"description_width": LABEL}, "layout": {"width": "480px"} | FITS}


def _check_slider(label, value, limits, step):
    if not (limits[0] <= value <= limits[1] and limits[0] < limits[1] and step > 0):
        raise ValueError(
            f"{label}: {value} must lie in the limits {limits}, step {step} above zero"
        )


def choice(label, value, options, readout=True):
    """A slider over a list of values. readout: show the value beside it."""
    # A list that drops down would lose its arrow keys to JupyterLab, which moves between cells.
    return widgets.SelectionSlider(
        value=value, options=options, description=label, readout=readout, **LOOK
    )


class ExplorerCanvas(FigureCanvasAgg):
    """Marks a figure as an explorer's own."""


class NamedImage(widgets.Image):
    """An Image that may have a tooltip, which is its name for screen readers.

    Without a description, which Image lacks, ipywidgets 8 fails to draw a widget with a tooltip.
    """

    description = Unicode("").tag(sync=True)


def explore(figure, update, presets=None, **controls):
    """Make an explorer: a picture, a line of words that says what it shows, and controls.

    figure: a DescribedFigure, taken over by the explorer; what moves in it is drawn with
    `animated=True`, its axes stand still.
    update: takes each control's value by name, sets the artists and returns the words.
    presets: name -> values for some controls; the others take their default. Reset is added.
    controls: name -> widget with a description, as `slider` makes it; their values are the default.
    Returns an Explorer; in a notebook, end the cell with it.
    """
    return Explorer(figure, update, presets or {}, controls)


def slider(label, value, limits, step):
    """A slider with a readable label. limits: the lowest and the highest value. Ints stay ints."""
    low, high = limits
    _check_slider(label, value, limits, step)
    whole = all(isinstance(number, int) for number in (value, low, high, step))
    kind = widgets.IntSlider if whole else widgets.FloatSlider
    return kind(value, min=low, max=high, step=step, description=label, **LOOK)


def log_slider(label, value, limits, step):
    """The same for a value that runs over powers of ten; step counts powers of ten."""
    _check_slider(label, value, limits, step)
    if limits[0] <= 0:
        raise ValueError(f"{label}: powers of ten are above zero, got limits {limits}")
    low, high = map(log10, limits)
    return widgets.FloatLogSlider(
        value, min=low, max=high, step=step, description=label, readout_format=".1e", **LOOK
    )


def switch(label, value, options):
    """A row of buttons of which one is chosen. options: the values, whose words are on them."""
    return Switch(label, value, options)


class Switch(widgets.HBox):
    """What `switch` returns. A mark says which is chosen; ToggleButtons have a shade of grey."""

    value = Any()

    def __init__(self, label, value, options):
        self.description, self.options = label, tuple(options)
        self.buttons = [widgets.Button(layout={"width": "auto"}) for _ in self.options]
        for button, option in zip(self.buttons, self.options, strict=True):
            button.on_click(lambda _, option=option: self.set_trait("value", option))
        name = widgets.Label(
            label, layout={"width": LABEL, "display": "flex", "justify_content": "flex-end"}
        )
        super().__init__([name, widgets.HBox(self.buttons, layout={"flex_flow": "row wrap"})])
        self.add_class("widget-inline-hbox")  # the label as a slider's
        self.value = value

    @validate("value")
    def _is_an_option(self, proposal):
        if proposal["value"] not in self.options:
            raise TraitError(f"{proposal['value']!r} is not among {self.options}")
        return proposal["value"]

    @observe("value")
    def _mark(self, _):
        for button, option in zip(self.buttons, self.options, strict=True):
            button.description = f"{'●' if option == self.value else '○'} {option}"


class Explorer:
    """What `explore` returns. `set(**values)` moves controls, `reset()` brings the default back."""

    def __init__(self, figure, update, presets, controls):
        _check_arguments(figure, presets, controls)
        self.figure, self.update, self.controls = figure, update, controls
        self.default = {name: control.value for name, control in controls.items()}
        self.presets = {name: self.default | values for name, values in presets.items()}
        self.presets["Reset"] = self.default
        self._draw_background()
        self.picture = NamedImage(format="jpeg", layout=FITS, **self._size())
        if self.picture.has_trait("tooltip"):  # not before ipywidgets 8
            self.picture.tooltip = figure.alt
        self.words = widgets.HTML(layout={"width": f"{self._size()['width']}px"} | FITS)
        self.buttons = {name: self._button(name) for name in self.presets}
        for name, values in self.presets.items():  # a fault is the author's: it raises at once
            try:
                self._place(values)
            except Exception as problem:
                raise ValueError(f"preset {name!r}: {problem}") from problem
            self._show_state()
        self._moving_together = False
        for control in controls.values():
            control.observe(self._on_move, "value")
            if control.has_trait("tooltip") and control.tooltip is None:
                control.tooltip = ""  # ipywidgets 8 would show the word "null"

    def set(self, **values):
        """Move several controls and draw once. A value that a control refuses moves none."""
        before = {name: control.value for name, control in self.controls.items()}
        self._moving_together = True
        try:
            self._place(values)
        except Exception:
            self._place(before)
            raise
        finally:
            self._moving_together = False
        self._on_move()

    def reset(self):
        """Bring the default state back."""
        self.set(**self.default)

    def _ipython_display_(self):
        # Three outputs, each with a form for pages where no widget lives: picture, words, and
        # which controls there are. `make refresh` stores these forms only.
        size = {"image/jpeg": self._size()}
        _display(self.picture, {"image/jpeg": bytes(self.picture.value)}, self.figure.alt, size)
        still = f"{self._said}\n\n*{self.figure.alt}*"  # pages without widgets name no picture
        _display(self.words, {"text/markdown": still}, self._said)
        names = ", ".join(control.description for control in self.controls.values())
        invitation = f"▶ Run this cell to move: {names}. Buttons: {', '.join(self.presets)}."
        buttons = widgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap"})
        box = widgets.VBox([*self.controls.values(), buttons])
        _display(box, {"text/markdown": f"*{invitation}*"}, invitation)

    def _place(self, values):
        unknown = sorted(set(values) - set(self.controls))
        if unknown:
            raise ValueError(f"{unknown} are not among the controls {sorted(self.controls)}")
        for name, value in values.items():
            self.controls[name].value = value
            taken = self.controls[name].value
            if taken != value and not (isinstance(taken, float) and isclose(taken, value)):
                raise ValueError(f"{name} cannot be {value!r}: its limits make it {taken!r}")

    def _on_move(self, _=None):
        if self._moving_together:
            return
        try:
            self._show_state()
        except Exception as problem:  # in a widget's callback nobody would see it
            self._say(f"This explorer failed. {type(problem).__name__}: {problem}")

    def _show_state(self):
        words = self.update(**{name: control.value for name, control in self.controls.items()})
        if not isinstance(words, str) or not words:
            raise TypeError(f"update must return words, got {words!r}")
        self.canvas.restore_region(self.background)
        for artist in self.moving:
            self.figure.draw_artist(artist)
        size = self.canvas.get_width_height()
        picture = Image.frombuffer("RGBX", size, self.canvas.buffer_rgba())  # X: no alpha to drop
        buffer = io.BytesIO()
        picture.save(buffer, "jpeg", quality=92, subsampling="4:2:0")
        self.picture.value = buffer.getvalue()
        self._say(words)

    def _say(self, words):
        self._said = words
        self.words.value = f'<div role="status" style="min-height: 60px">{html.escape(words)}</div>'

    def _draw_background(self):
        self.moving = self.figure.findobj(lambda artist: artist.get_animated())
        if not self.moving:
            raise ValueError("nothing in the figure moves: draw it with animated=True")
        self.figure.set_dpi(self.figure.dpi * SCALE)
        self.canvas = ExplorerCanvas(self.figure)
        self.moving.sort(key=lambda artist: artist.get_zorder())
        self.canvas.draw()
        self.figure.set_layout_engine("none")  # from here on the axes stand still
        self.background = self.canvas.copy_from_bbox(self.figure.bbox)

    def _size(self):
        width, height = self.canvas.get_width_height()
        return {"width": width // SCALE, "height": height // SCALE}

    def _button(self, name):
        button = widgets.Button(description=name, layout={"width": "auto"})
        button.on_click(lambda _: self.set(**self.presets[name]))
        return button


def _check_arguments(figure, presets, controls):
    if not isinstance(figure, DescribedFigure):
        raise TypeError(f"figure must be a DescribedFigure, got {type(figure).__name__}")
    if isinstance(figure.canvas, ExplorerCanvas):
        raise ValueError("figure already has an explorer: draw it afresh")
    if not controls:
        raise ValueError("an explorer needs at least one control")
    for name, control in controls.items():
        if not getattr(control, "description", "") or not hasattr(control, "value"):
            raise TypeError(f"{name} must be a widget with a value and a description")
    if "Reset" in presets:
        raise ValueError("Reset is added by explore; give this preset another name")
    for name, values in presets.items():
        if not isinstance(values, dict):
            raise TypeError(f"preset {name!r} must be a dict of values, got {values!r}")


def _display(widget, picture_of_it, plain, metadata=None):
    bundle = {"text/plain": plain, **picture_of_it}
    live = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({VIEW: live, **bundle}, raw=True, metadata=metadata or {})
