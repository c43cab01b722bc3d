// A model as a list of layers, compiled and fitted, as in Keras: on every device of this machine.
//   example_fit [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 50'000;
    const auto images = bg::fashion_mnist(directory);
    const auto train = images.take(examples).shuffle(10'000).batch(64).prefetch(bg::kAutotune);
    const auto test = images.skip(examples).take(examples / 5).batch(64);

    bg::MirroredStrategy strategy;
    bg::Model model(
        strategy, bg::Sequential({bg::Conv2D{.filters = 16, .kernel_size = 3, .activation = "relu"},
                                  bg::MaxPooling2D{}, bg::Flatten{}, bg::Dropout{.rate = 0.2},
                                  bg::Dense{.units = 64, .activation = "relu"},
                                  bg::Dense{.units = 10, .activation = "softmax"}},
                                 {.input_shape = {{1, 28, 28}}}));
    std::cout << model.summary();
    model.compile(
        {.optimizer = "adam", .loss = "sparse_categorical_crossentropy", .metrics = {"accuracy"}});
    model.fit(train, {.epochs = 3,
                      .validation_data = test,
                      .callbacks = {bg::EarlyStopping{.monitor = "val_loss", .patience = 1}}});
    for (const auto& [name, value] : model.evaluate(test))
      std::cout << name << ": " << value << "\n";
    std::cout << "the first image is of class "
              << model.predict(bg::LabeledData(test)).argmax(1)[0].item<std::int64_t>() << "\n";
  });
}
