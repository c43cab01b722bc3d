"""What torchvision's augmentations make of small images of bytes. Writes brigade/image/testing/augmentations.json.

Needs torch and torchvision:

    python tools/tf_data/augmentations.py
"""

import base64
import json
import pathlib

import numpy as np
import torch
from torchvision.transforms import InterpolationMode, RandAugment, TrivialAugmentWide
from torchvision.transforms.autoaugment import _apply_op

FILE = pathlib.Path(__file__).resolve().parents[2] / "brigade/image/testing/augmentations.json"
random = np.random.RandomState(11)
OPERATIONS = {"Identity": "identity", "ShearX": "shear_x", "ShearY": "shear_y", "TranslateX": "translate_x",
              "TranslateY": "translate_y", "Rotate": "rotate", "Brightness": "brightness", "Color": "color",
              "Contrast": "contrast", "Sharpness": "sharpness", "Posterize": "posterize", "Solarize": "solarize",
              "AutoContrast": "autocontrast", "Equalize": "equalize"}


def photograph(height, width, channels, low, high):
    """Soft shapes with some noise, as a camera gives, with values of low to high."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [np.sin(x / (2 + channel) + channel) + np.cos(y / (4 - channel)) + random.randn(height, width) * 0.2
              for channel in range(channels)]
    values = np.stack(planes, -1)
    values = (values - values.min()) / (values.max() - values.min())
    return np.round(low + values * (high - low)).astype(np.uint8)


IMAGES = {
    "rgb": photograph(13, 17, 3, 3, 250),
    "dull": photograph(12, 10, 3, 90, 140),  # for autocontrast
    "gray": photograph(11, 9, 1, 10, 240),
    "large": photograph(40, 45, 3, 30, 200),  # enough pixels for equalize to change them
    "flat": np.full((5, 6, 3), 77, np.uint8),
    "thin": photograph(2, 9, 3, 0, 255),  # without an inside
}


def array(values):
    values = np.ascontiguousarray(values)
    return {"shape": list(values.shape), "values": base64.b64encode(values.tobytes()).decode()}


def applied(image, operation, magnitude, interpolation=InterpolationMode.NEAREST, fill=None):
    tensor = torch.from_numpy(IMAGES[image]).permute(2, 0, 1)
    result = _apply_op(tensor, operation, magnitude, interpolation, fill)
    return array(result.permute(1, 2, 0).numpy())


def case(image, operation, magnitude, interpolation="nearest", fill=None):
    result = applied(image, operation, magnitude, InterpolationMode(interpolation), fill)
    return {"image": image, "operation": OPERATIONS[operation], "magnitude": magnitude, "interpolation": interpolation,
            "fill": fill or [], "result": result}


affine = [("ShearX", 0.13), ("ShearX", -0.29), ("ShearY", 0.21), ("ShearY", -0.99), ("TranslateX", 3.7), ("TranslateX", -2.0),
          ("TranslateY", 1.0), ("TranslateY", -5.2), ("Rotate", 17.0), ("Rotate", -133.0), ("Rotate", 90.0)]
values = [("Identity", 0.0), ("Brightness", 0.37), ("Brightness", -0.9), ("Color", 0.81), ("Color", -0.63), ("Contrast", 0.55), ("Contrast", -0.99),
          ("Sharpness", 0.9), ("Sharpness", -0.7), ("Posterize", 4), ("Posterize", 2), ("Posterize", 8), ("Solarize", 110.5), ("Solarize", 0.0),
          ("Solarize", 255.0), ("AutoContrast", 0.0), ("Equalize", 0.0)]

cases = [case(image, *each) for image in ("rgb", "gray") for each in affine]
cases += [case(image, *each, interpolation="bilinear") for image in ("rgb", "gray") for each in affine]
cases += [case("rgb", *each, fill=[10.0, 200.0, 30.0]) for each in affine[::3]]
cases += [case(image, *each) for image in ("rgb", "gray") for each in values]
cases += [case(image, *each) for image in ("dull", "flat", "thin") for each in values[1:]]
cases += [case("large", "Equalize", 0.0), case("large", "AutoContrast", 0.0)]


def magnitudes(space, sizes_or_none, bins):
    """[operation, size, magnitudes, whether the sign is random]"""
    rows = []
    for size in sizes_or_none:
        for name, (values, is_signed) in (space(bins, size) if size else space(bins)).items():
            listed = [float(v) for v in values] if values.ndim else [0.0] * bins
            rows.append({"operation": OPERATIONS[name], "size": list(size or (0, 0)), "magnitudes": listed, "signed": bool(is_signed)})
    return rows


parts = {
    "images": {name: array(image) for name, image in IMAGES.items()},
    "cases": cases,
    "rand_augment": magnitudes(RandAugment()._augmentation_space, [(224, 224), (331, 96)], 31),
    "rand_augment of 11 bins": magnitudes(RandAugment()._augmentation_space, [(32, 32)], 11),
    "trivial_augment": magnitudes(TrivialAugmentWide()._augmentation_space, [None], 31),
}


def rows(part):
    """One line for each element."""
    lines = [json.dumps(each) for each in part] if isinstance(part, list) else [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()]
    return ",\n".join(lines)


brackets = {name: "[]" if isinstance(part, list) else "{}" for name, part in parts.items()}
FILE.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {brackets[name][0]}\n{rows(part)}\n{brackets[name][1]}" for name, part in parts.items()) + "\n}\n")
