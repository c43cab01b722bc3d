// ResNet-50 on a folder of images, each of its folders a class, by `fit` on a distributed dataset.
//
//   example_resnet_image_folder DIRECTORY [IMAGE_SIZE [EPOCHS [WIDTH]]]
//
// WIDTH is the fraction of the original's channels, 1 by default. Any folder of JPEG, PNG or BMP
// files will do; tools/fashion_mnist_folder.py makes one.
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    bg::check_argument(argc > 1, "Give the directory of the images.");
    const std::int64_t size = argc > 2 ? std::atoll(argv[2]) : 224;
    const int epochs = argc > 3 ? std::atoi(argv[3]) : 10;
    const double width = argc > 4 ? std::atof(argv[4]) : 1.0;

    bg::MirroredStrategy strategy;
    const auto folder = bg::image_examples_from_directory(
        argv[1], {.image_size = {size, size}, .interpolation = bg::Interpolation::kNearest});
    const auto classes = static_cast<std::int64_t>(folder.class_names.size());
    const auto preprocess = [](bg::LabeledExample example) {
      example.features = example.features / 255;  // decoded images have values from 0 to 255
      return example;
    };
    // Shuffled after the cache, so that each epoch has another order, and batched after that.
    const auto dataset =
        folder.dataset.map(preprocess).cache().shuffle(1000).batch(32).prefetch(bg::kAutotune);

    bg::Model model(strategy, [=](const at::Tensor& images, bg::Mode mode) {
      return bg::models::resnet(
                 images,
                 {.depth = 50, .num_classes = classes, .depth_multiplier = width, .mode = mode})
          .logits;
    });
    model.compile({.optimizer = bg::optim::Adam{.learning_rate = 1e-3},
                   .loss = bg::Loss("sparse_categorical_crossentropy", {.from_logits = true}),
                   .metrics = {"accuracy"}});
    const bg::History history = model.fit(strategy.distribute(dataset), {.epochs = epochs});

    std::cout << classes << " classes, accuracy " << history.at("accuracy").back() << "\n";
    bg::check_state(history.at("loss").back() < 0.8 * history.at("loss").front(),
                    "The loss did not fall.");
  });
}
