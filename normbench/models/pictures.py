"""Grey pictures side by side, as a PNG file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ENLARGED, GAP = 4, 1  # a pixel's side and the space between pictures, in pixels of the file and of a picture
MOST = 16  # pictures in a row
PAPER, FRAME = (255, 255, 255), (213, 94, 0)


class Frame(NamedTuple):
    """A rectangle in a picture's own pixels, counted from 0 at the middle of the first."""

    top: float
    left: float
    bottom: float
    right: float


def png(pictures: Sequence[np.ndarray], frames: Sequence[Frame] = ()) -> bytes:
    """Pictures (height, width) of values from 0 (black) to 1, in rows as nearly square as `MOST` a row allows, each
    perhaps with a frame; what of a frame lies outside is not seen. NaN is black.
    """
    from PIL import Image, ImageDraw

    height, width = pictures[0].shape
    columns = min(MOST, math.ceil(math.sqrt(len(pictures) * 2)))
    rows = math.ceil(len(pictures) / columns)
    sheet = Image.new(
        "RGB", ((columns * (width + GAP) - GAP) * ENLARGED, (rows * (height + GAP) - GAP) * ENLARGED), PAPER
    )
    for place, picture in enumerate(pictures):
        row, column = divmod(place, columns)
        grey = Image.fromarray(np.clip(np.round(np.nan_to_num(picture) * 255), 0, 255).astype(np.uint8)).convert("RGB")
        tile = grey.resize((width * ENLARGED, height * ENLARGED), Image.Resampling.NEAREST)
        if frames:
            limit = 2 * max(height, width)  # far outside is outside
            edges = [min(limit, max(-limit, edge)) for edge in frames[place]]  # so that NaN is outside as well
            top, left, bottom, right = (round((edge + 0.5) * ENLARGED) for edge in edges)
            ImageDraw.Draw(tile).rectangle((left, top, right, bottom), outline=FRAME)
        sheet.paste(tile, (column * (width + GAP) * ENLARGED, row * (height + GAP) * ENLARGED))
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()
