#pragma once

#include <filesystem>

#include "brigade/input/mnist.h"
#include "brigade/input/synthetic.h"

namespace brigade::parity {

/// The first `count` test images of Fashion-MNIST; synthetic images if the dataset is not
/// installed.
inline data::Dataset<input::LabeledExample> examples(std::int64_t count) {
  if (!std::filesystem::exists(input::kFashionMnistDirectory))
    return input::synthetic(count, {1, 28, 28}, 10);
  return input::fashion_mnist(input::kFashionMnistDirectory, input::Split::kTest).take(count);
}

/// The same with float64 features, for comparisons with a tight tolerance.
inline data::Dataset<input::LabeledExample> double_examples(std::int64_t count) {
  return examples(count).map([](const input::LabeledExample& example) {
    return input::LabeledExample{example.features.to(at::kDouble), example.label};
  });
}

}  // namespace brigade::parity
