"""What Keras's fit and evaluate report of several losses, sample weights and class weights, in float64.

Prints the values of brigade/train/model/model_outputs_test.cpp and class_weights_test.cpp (Keras 3.15, TensorFlow 2.21):

    .deps/bench-venv/bin/python tools/keras/fit_values.py
"""

import keras
import numpy as np
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

keras.backend.set_floatx("float64")


def line(count):
    i = np.arange(count, dtype=np.float64)
    x = np.stack([np.sin(i * 0.7), np.cos(i * 1.3)], 1)
    return x, x[:, 0] - 2 * x[:, 1] + 1


def weights(count):
    return 0.5 + np.arange(count, dtype=np.float64) % 3


def other_weights(count):
    return 2.0 - np.arange(count, dtype=np.float64) % 2


def show(title, logs):
    print(title)
    for name, value in sorted(logs.items()):
        values = value if isinstance(value, list) else [value]
        print(f'  {{"{name}", {{{", ".join(repr(float(each)) for each in values)}}}}},')


def dense(x, units=1, **options):
    return keras.layers.Dense(units, kernel_initializer="zeros", **options)(x)


def fitted(model, x, y, validation, **options):
    return model.fit(x, y, batch_size=10, epochs=3, shuffle=False, validation_data=validation, verbose=0, **options).history


def evaluated(model, x, y, batch_size, **options):
    return model.evaluate(x, y, batch_size=batch_size, verbose=0, return_dict=True, **options)


def two_outputs(**options):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, {"main": dense(inputs, name="main"), "aux": dense(inputs, name="aux")})
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss={"main": "mse", "aux": "mae"}, loss_weights={"main": 1.0, "aux": 0.4},
                  **options)
    return model


def for_both(y):
    return {"main": y[:, None], "aux": y[:, None]}


# Batches of one size: Keras averages the losses of outputs over batches, not over examples.
def several_losses():
    (x, y), (vx, vy) = line(40), line(20)
    validation = (vx, for_both(vy))
    model = two_outputs(metrics={"main": ["mae"], "aux": ["mse"]})
    show("several losses", fitted(model, x, for_both(y), validation))
    show("evaluate", evaluated(model, vx, for_both(vy), 5))
    model = two_outputs(metrics={"main": ["mae"]}, weighted_metrics={"main": ["mae"], "aux": ["mse"]})
    show("weights by output", fitted(model, x, for_both(y), validation,
                                     sample_weight={"main": weights(40), "aux": other_weights(40)}))


def sample_weights():
    (x, y), (vx, vy) = line(37), line(11)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, dense(inputs))
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"], weighted_metrics=["mae", "mse"])
    show("sample weights", fitted(model, x, y[:, None], (vx, vy[:, None], weights(11)), sample_weight=weights(37)))
    show("evaluate", evaluated(model, vx, vy[:, None], 4, sample_weight=other_weights(11)))


def class_weights():
    (x, _), (vx, _) = line(37), line(11)
    classes, validation = [(np.arange(count) * 2 % 5) % 3 for count in (37, 11)]
    inputs = keras.Input((2,))
    model = keras.Model(inputs, dense(inputs, 3, activation="softmax"))
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="sparse_categorical_crossentropy", metrics=["accuracy"],
                  weighted_metrics=["accuracy"])
    show("class weights", fitted(model, x, classes, (vx, validation), class_weight={0: 2.0, 2: 0.25}))
    for labels, weight in [(np.array([0, 1, 2, 5, 0]), {0: 2.0, 5: 0.25}), (np.eye(3)[[2, 0, 1]], {0: 2.0, 2: 0.25}),
                           (np.array([[1.0], [2.2]]), {2: 3.0})]:
        print(class_weight_to_sample_weights(labels, weight))


if __name__ == "__main__":
    several_losses()
    sample_weights()
    class_weights()
