"""What TensorFlow makes of images: decoding, resizing, colors, crops, types. Writes brigade/image/testing/images.json.

Besides TensorFlow it needs Pillow, which writes kinds of files that TensorFlow does not:

    .deps/bench-venv/bin/python tools/tf_data/images.py
"""

import base64
import hashlib
import io
import json
import pathlib

import keras
import numpy as np
import PIL.Image
import tensorflow as tf

FILE = pathlib.Path(__file__).resolve().parents[2] / "brigade/image/testing/images.json"
random = np.random.RandomState(7)


def text(data):
    return base64.b64encode(bytes(data)).decode()


def array(values):
    """A small array with all its values."""
    values = np.ascontiguousarray(values)
    return {"shape": list(values.shape), "dtype": str(values.dtype), "values": text(values.tobytes())}


def digest(values):
    """An array of bytes that must be the same to the bit."""
    values = np.ascontiguousarray(values)
    return {"shape": list(values.shape), "sha256": hashlib.sha256(values.tobytes()).hexdigest()}


def photograph(height, width, channels=3):
    """Soft shapes with some noise, as a camera gives."""
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for channel in range(channels):
        wave = np.sin(x / (5 + channel) + channel) + np.cos(y / (7 - channel)) + np.sin((x + y) / 11)
        planes.append(128 + 38 * wave + random.randn(height, width) * 4)
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def attempt(function):
    """The image, or null where TensorFlow refuses."""
    try:
        return digest(function().numpy())
    except tf.errors.InvalidArgumentError:
        return None


photo = photograph(45, 61)
gray = photograph(33, 20, 1)
rgba = np.concatenate([photograph(9, 14), photograph(9, 14, 1)], -1)
pillow = PIL.Image.fromarray
with_key = pillow(photo[:9, :14]).quantize(16)

jpegs = {
    "420": tf.io.encode_jpeg(photo, quality=90).numpy(),
    "444": tf.io.encode_jpeg(photo, quality=75, chroma_downsampling=False).numpy(),
    "422": saved(pillow(photo), "JPEG", quality=80, subsampling=1),
    "progressive": tf.io.encode_jpeg(photo, quality=90, progressive=True).numpy(),
    "gray": tf.io.encode_jpeg(gray, quality=90).numpy(),
    "cmyk": saved(pillow(photo).convert("CMYK"), "JPEG", quality=90),
    "restarts": saved(pillow(photo), "JPEG", quality=85, restart_marker_blocks=3),
}
windows = [None, (0, 0, 24, 24), (7, 19, 30, 37), (16, 16, 16, 16), (44, 60, 1, 1), (3, 0, 40, 61), (30, 33, 15, 28)]
jpeg_cases = []
for name, data in jpegs.items():
    for channels in (0, 1, 3):
        for ratio in (1, 2, 4, 8) if name in ("420", "progressive", "gray") else (1, 2):
            jpeg_cases.append({"file": name, "channels": channels, "ratio": ratio, "window": None, "dct": "",
                               "image": attempt(lambda: tf.io.decode_jpeg(data, channels=channels, ratio=ratio))})
    if name != "gray":
        for window in windows[1:]:
            jpeg_cases.append({"file": name, "channels": 3, "ratio": 1, "window": window, "dct": "", "image": attempt(
                lambda: tf.image.decode_and_crop_jpeg(data, window, channels=3))})
    jpeg_cases.append({"file": name, "channels": 0, "ratio": 1, "window": None, "dct": "INTEGER_ACCURATE",
                       "image": attempt(lambda: tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE"))})

deep = (random.rand(9, 14, 3) * 65535).astype(np.uint16)
pngs = {
    "rgb": tf.io.encode_png(photo).numpy(),
    "gray": tf.io.encode_png(gray).numpy(),
    "rgba": tf.io.encode_png(rgba).numpy(),
    "gray alpha": tf.io.encode_png(rgba[..., 2:]).numpy(),
    "16 bits": tf.io.encode_png(deep).numpy(),
    "16 bits gray": tf.io.encode_png(deep[..., :1]).numpy(),
    "palette": saved(with_key, "PNG"),
    "palette of 2 bits": saved(pillow(photo[:9, :14]).quantize(4), "PNG", bits=2),
    "palette with key": saved(with_key, "PNG", transparency=3),
    "1 bit": saved(pillow(gray[..., 0]).convert("1"), "PNG"),
    "gray with key": saved(pillow(gray[..., 0]), "PNG", transparency=int(gray[3, 4, 0])),
    "rgb with key": saved(pillow(photo), "PNG", transparency=tuple(int(v) for v in photo[3, 4])),
}
png_cases = [{"file": name, "channels": channels,
              "image": attempt(lambda: tf.io.decode_png(data, channels=channels))}
             for name, data in pngs.items() for channels in (0, 1, 2, 3, 4)]

bmps = {
    "24 bits": saved(pillow(photo[:9, :14]), "BMP"),
    "32 bits": saved(pillow(rgba), "BMP"),
    "gray": saved(pillow(gray[..., 0]), "BMP"),
}
bmp_cases = [{"file": name, "channels": channels,
              "image": attempt(lambda: tf.io.decode_bmp(data, channels=channels))}
             for name, data in bmps.items() for channels in (0, 1, 3, 4)]
palette = {"file": text(saved(with_key, "BMP")), "image": digest(np.array(with_key.convert("RGB")))}

small = photograph(6, 7)
tall = photograph(23, 3, 1)
resize_cases = [{"image": name, "size": size, "interpolation": method,
                 "result": array(tf.image.resize(image, size, method=method).numpy().astype(np.float32))}
                for name, image in (("small", small), ("tall", tall))
                for size in ((4, 5), (11, 9), (1, 1), (6, 14))
                for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")]

adjust = tf.image
floats = small.astype(np.float32) / np.float32(255)
color_cases = []
for name, function, amounts in (("brightness", adjust.adjust_brightness, (-0.3, 0.21)),
                                ("contrast", adjust.adjust_contrast, (0.4, 1.9)),
                                ("saturation", adjust.adjust_saturation, (0.0, 0.5, 3.1)),
                                ("hue", adjust.adjust_hue, (-0.7, 0.11, 0.5))):
    for amount in amounts:
        color_cases.append({"change": name, "amount": amount, "floats": array(function(floats, amount).numpy()),
                             "bytes": array(function(small, amount).numpy())})


def window_of(image, part):
    """Where `part` of an image that numbers its pixels begins, and its size."""
    start = int(part[0, 0, 0])
    return [start // image.shape[1], start % image.shape[1], part.shape[0], part.shape[1]]


crop_cases = []
for size in ((375, 500), (17, 40), (8, 3), (224, 224)):
    numbers = np.arange(size[0] * size[1], dtype=np.float32).reshape(*size, 1)
    for fraction in (0.5, 0.875, 0.33, 1.0):
        part = tf.image.central_crop(numbers, fraction).numpy()
        crop_cases.append({"size": size, "fraction": fraction, "window": window_of(numbers, part)})
    for target in ((224, 224), (100, 150), (7, 3), (1, 9)):
        whole = []

        class Spy:  # sees the crop that smart_resize hands to resize
            def __getattr__(self, name):
                return getattr(keras.src.backend.tensorflow, name)

            class image:
                @staticmethod
                def resize(image, **_):
                    whole.append(image)
                    return image

        keras.src.utils.image_utils.smart_resize(tf.constant(numbers), target, data_format="channels_last",
                                                 backend_module=Spy())
        crop_cases.append({"size": size, "aspect": target, "window": window_of(numbers, np.array(whole[0]).reshape(
            np.array(whole[0]).shape[-3:]))})
padded = [{"size": size, "result": array(tf.image.resize_with_crop_or_pad(small, *size).numpy())}
          for size in ((4, 4), (9, 10), (5, 12), (9, 3))]

convert_floats = np.concatenate([np.linspace(-0.1, 1.1, 241), [1 / 255, 254.9 / 255]]).astype(np.float32)
every_byte = np.arange(256, dtype=np.uint8)
converts = {
    "floats": array(convert_floats),
    "floats to bytes": array(tf.image.convert_image_dtype(convert_floats, tf.uint8, saturate=True).numpy()),
    "bytes to floats": array(tf.image.convert_image_dtype(every_byte, tf.float32).numpy()),
    "bytes to int16": array(tf.image.convert_image_dtype(every_byte, tf.int16).numpy()),
    "bytes to int32": array(tf.image.convert_image_dtype(every_byte, tf.int32).numpy()),
    "int16 to bytes": array(tf.image.convert_image_dtype(np.arange(-1000, 32768, 37, dtype=np.int16), tf.uint8, saturate=True).numpy()),
    "int16": array(np.arange(-1000, 32768, 37, dtype=np.int16)),
}

parts = {
    "jpeg files": {name: text(data) for name, data in jpegs.items()}, "jpeg": jpeg_cases,
    "png files": {name: text(data) for name, data in pngs.items()}, "png": png_cases,
    "bmp files": {name: text(data) for name, data in bmps.items()}, "bmp": bmp_cases, "bmp palette": palette,
    "images": {"small": array(small), "tall": array(tall)}, "resize": resize_cases,
    "color": color_cases, "crop": crop_cases, "crop or pad": padded, "convert": converts,
}
FILE.parent.mkdir(parents=True, exist_ok=True)
lines = []
for name, part in parts.items():
    if isinstance(part, list):
        rows = ",\n".join(json.dumps(row) for row in part)
        lines.append(f"{json.dumps(name)}: [\n{rows}]")
    else:
        rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        lines.append(f"{json.dumps(name)}: {{\n{rows}}}")
FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
print(FILE, FILE.stat().st_size, "bytes")
