"""Writes resnet_values.json: what torchvision's and Keras's ResNets compute with the weights of pattern_weights.py.

Needs torch, torchvision and tf_keras:

    python make_resnet_values.py [OUTPUT]

Everything is computed in float64 (with weights that are rounded to float32), so that the comparison can be strict also where batch norm
over few values makes rounding errors grow. Keras's layers then compute the moving variance without the correction for the size of the batch
that its kernel for float32 has, so only its moving means are compared. Variables are called as torchvision's in its cases, as Brigade's in
Keras's.
"""
import json
import os
import pathlib
import re
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import torch
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from pattern_weights import pattern_values, pattern_weights, summary_of  # noqa: E402

CLASSES = 20


def images_of(side, batch):
    return pattern_values("images", (batch, 3, side, side)).astype(np.float64)


def labels_of(batch):
    return np.arange(batch) * 7 % CLASSES


def torch_values(original, side, training, batch):
    model = getattr(torchvision.models, original)(num_classes=CLASSES).double()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.from_numpy(pattern_weights(name, tuple(value.shape))))
    model.train(training)
    logits = model(torch.from_numpy(images_of(side, batch)))
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels_of(batch)))
    loss.backward()
    moved = {name: value for name, value in model.state_dict().items() if "running" in name}
    return (logits.detach().numpy(), loss.item(),
            {name: value.grad.numpy() for name, value in model.named_parameters()},
            {name: value.numpy() for name, value in moved.items()} if training else {})


KERAS_VARIABLES = {"kernel": "weights", "bias": "biases", "gamma": "BatchNorm/gamma", "beta": "BatchNorm/beta",
                   "moving_mean": "BatchNorm/moving_mean", "moving_variance": "BatchNorm/moving_variance"}


def our_name(name):
    """conv3_block1_0_bn/gamma:0 is block2/unit_1/shortcut/BatchNorm/gamma."""
    layer, variable = name.split(":")[0].split("/")
    inner = re.fullmatch(r"conv(\d)_block(\d+)_(\d)_(?:conv|bn)", layer)
    if inner:
        block, unit, number = (int(part) for part in inner.groups())
        scope = f"block{block - 1}/unit_{unit}/" + (f"conv{number}" if number else "shortcut")
    else:
        scope = {"conv1_conv": "conv1", "conv1_bn": "conv1", "predictions": "logits"}[layer]
    return scope + "/" + KERAS_VARIABLES[variable]


def in_our_layout(array):
    """Of [height, width, in, out] and [in, out], as libtorch's."""
    return array.transpose({4: (3, 2, 0, 1), 2: (1, 0)}.get(array.ndim, range(array.ndim)))


def in_keras_layout(array):
    return array.transpose({4: (2, 3, 1, 0), 2: (1, 0)}.get(array.ndim, range(array.ndim)))


def keras_values(_, side, training, batch):
    import tensorflow as tf
    import tf_keras
    tf_keras.backend.set_floatx("float64")
    model = tf_keras.applications.ResNet50(weights=None, input_shape=(side, side, 3), classes=CLASSES,
                                           classifier_activation=None)
    for variable in model.variables:
        shape = in_our_layout(np.empty(variable.shape, dtype=bool)).shape
        variable.assign(in_keras_layout(pattern_weights(our_name(variable.name), shape).astype(np.float64)))
    with tf.GradientTape() as tape:
        logits = model(images_of(side, batch).transpose(0, 2, 3, 1), training=training)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_of(batch), logits=logits))
    gradients = tape.gradient(loss, model.trainable_variables)
    moved = [variable for variable in model.variables if "moving_mean" in variable.name]
    return (logits.numpy(), float(loss),
            {our_name(variable.name): in_our_layout(gradient.numpy())
             for variable, gradient in zip(model.trainable_variables, gradients)},
            {our_name(variable.name): variable.numpy() for variable in moved} if training else {})


def rounded(value):
    """Ten digits: more than float32 has."""
    return [rounded(each) for each in value] if isinstance(value, list) else float(f"{value:.9e}")


def case(original, side, training, batch):
    """In the form of make_inception_v3_values.py, and the summaries of the moved statistics."""
    values = keras_values if "keras" in original else torch_values
    logits, loss, gradients, statistics = values(original, side, training, batch)
    names = sorted(gradients)
    return {"original": original, "side": side, "training": training, "logits": rounded(logits.tolist()), "auxiliary": None,
            "loss": rounded(loss), "names": names, "gradients": [rounded(summary_of(name, gradients[name])) for name in names],
            "statistics": {name: rounded(summary_of(name, statistics[name])) for name in sorted(statistics)}}


def main():
    default = pathlib.Path(__file__).parent / "resnet_values.json"
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    cases = [case("resnet18", 96, True, 3), case("resnet18", 64, False, 2), case("resnet50", 64, True, 4),
             case("resnet50", 96, False, 2), case("resnet50_keras", 64, True, 4), case("resnet50_keras", 96, False, 2)]
    lines = ",\n".join(json.dumps(each) for each in cases)
    output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
