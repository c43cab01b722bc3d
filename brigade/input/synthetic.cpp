#include "brigade/input/synthetic.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::input {
namespace {

void check_sizes(std::int64_t count, const std::vector<std::int64_t>& shape, std::int64_t classes) {
  const bool is_whole =
      std::all_of(shape.begin(), shape.end(), [](auto size) { return size >= 0; });
  check_argument(count >= 0 && is_whole && classes >= 1, "synthetic: ", count,
                 " examples of shape [", base::join(shape, ", "), "] in ", classes,
                 " classes; sizes must be 0 or more and classes 1 or more");
}

/// Numbers in [0, 1) with 24 random bits, two from each draw.
std::vector<float> random_floats(std::uint64_t key, std::int64_t count) {
  base::CounterRng rng(key);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bits = i % 2 == 0 ? rng() : bits << 32;
    values[i] = static_cast<float>(bits >> 40) * 0x1p-24F;
  }
  return values;
}

}  // namespace

data::Dataset<LabeledExample> synthetic(std::int64_t count, const std::vector<std::int64_t>& shape,
                                        std::int64_t classes, std::uint64_t seed) {
  check_sizes(count, shape, classes);
  std::vector<std::int64_t> all{count};
  all.insert(all.end(), shape.begin(), shape.end());
  at::Tensor features = at::empty(all, at::kFloat);
  at::Tensor labels = at::empty({count}, at::kLong);
  const std::int64_t size = count == 0 ? 0 : features.numel() / count;
  std::vector<std::vector<float>> patterns;
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto replica = static_cast<std::uint64_t>(c);
    patterns.push_back(
        random_floats(base::derive_seed(seed, "synthetic/pattern", replica, 0), size));
  }
  base::CounterRng classes_rng(base::derive_seed(seed, "synthetic/label", 0, 0));
  const std::vector<float> noise =
      random_floats(base::derive_seed(seed, "synthetic/noise", 0, 0), count * size);
  auto* feature = features.mutable_data_ptr<float>();
  auto* label = labels.mutable_data_ptr<std::int64_t>();
  std::size_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = classes_rng.uniform_below(static_cast<std::uint64_t>(classes));
    label[i] = static_cast<std::int64_t>(drawn);
    for (const float value : patterns[drawn]) {
      feature[at] = 0.5F * value + 0.5F * noise[at];
      ++at;
    }
  }
  return from_tensor_slices(std::move(features), labels, base::str_cat("synthetic(", count, ")"));
}

}  // namespace brigade::input
