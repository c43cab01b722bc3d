#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>

namespace brigade::models {

/// For tests that compare a model with its original in Python: values of tensors that both sides
/// compute by the same formula, so that no weights need to be stored.
/// tests/parity/pattern_weights.py is the same in Python.
///
/// Element i (row-major, in libtorch's layout) of the tensor called `name` is
///
///   center + spread * (2 * u(i) - 1),   u(i) = floor(mix(hash(name) + (i + 1) * G) / 2^11) / 2^53
///
/// in double, rounded to float, where `hash` is FNV-1a of 64 bits over the bytes of the name, G is
/// 0x9E3779B97F4A7C15, `mix` is the finalizer of SplitMix64, and integers wrap around at 2^64:
/// values that look independent and uniform in [center - spread, center + spread).
struct PatternRange {
  double center = 0.0;
  double spread = 1.0;
};

namespace pattern_internal {

inline std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char byte : name) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  }
  return value;
}

inline std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace pattern_internal

/// A float tensor on the CPU by the formula.
inline at::Tensor pattern_values(std::string_view name, at::IntArrayRef shape,
                                 const PatternRange& range = {}) {
  at::Tensor values = at::empty(shape, at::kFloat);
  auto* element = values.data_ptr<float>();
  std::uint64_t state = pattern_internal::hash(name);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    state += 0x9E3779B97F4A7C15U;
    const double u = static_cast<double>(pattern_internal::mix(state) >> 11U) * 0x1p-53;
    element[i] = static_cast<float>(range.center + range.spread * (2.0 * u - 1.0));
  }
  return values;
}

/// The range for a model's variable, by the last part of its name (after '/' or '.') and its shape,
/// so that activations neither vanish nor explode:
///
/// - two or more dimensions: 0 +- sqrt(6 / fan in), where fan in is the product of all dimensions
///   but the first (He's uniform initialization);
/// - running_var, moving_variance: 1 +- 0.25;
/// - gamma, and weight of one dimension (PyTorch's batch norm): 1 +- 0.1;
/// - all others (biases, beta, means): 0 +- 0.1.
inline PatternRange pattern_range(std::string_view name, at::IntArrayRef shape) {
  if (shape.size() >= 2) {
    const auto fan_in =
        std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    return {.spread = std::sqrt(6.0 / static_cast<double>(fan_in))};
  }
  const auto last = name.substr(name.find_last_of("/.") + 1);
  if (pattern_internal::is_one_of(last, {"running_var", "moving_variance"})) return {1.0, 0.25};
  if (pattern_internal::is_one_of(last, {"gamma", "weight"})) return {1.0, 0.1};
  return {.spread = 0.1};
}

/// The values of a model's variable.
inline at::Tensor pattern_weights(std::string_view name, at::IntArrayRef shape) {
  return pattern_values(name, shape, pattern_range(name, shape));
}

/// What of a large tensor is compared: its sum, the sum of its squares, and its dot product with
/// `pattern_values(name + ":probe")`, all in double.
struct TensorSummary {
  double sum = 0.0, squares = 0.0, probe = 0.0;
};

inline TensorSummary summary_of(std::string_view name, const at::Tensor& tensor) {
  const auto values = tensor.detach().to(at::kDouble).flatten();
  const auto probe = pattern_values(std::string(name) + ":probe", values.sizes()).to(at::kDouble);
  return {values.sum().item<double>(), values.dot(values).item<double>(),
          values.dot(probe).item<double>()};
}

}  // namespace brigade::models
