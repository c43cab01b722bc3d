#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "brigade/data/formats/example_view.h"
#include "brigade/input/example_features.h"

/// Converts one feature of examples to a tensor, for `ExampleFeatures`; internal.
namespace brigade::input::internal {

/// One unparsed feature of the N examples of a batch.
///
/// Thread-safety: immutable. Lifetime: that of the objects it refers to.
struct ExampleColumn {
  const std::string& name;
  std::span<const data::FeatureView> examples;
};

struct ColumnTensors {
  at::Tensor values;                       ///< [N, ...]
  std::optional<at::Tensor> lengths = {};  ///< int64 [N], if requested
};

ColumnTensors read_column(const ExampleColumn& column, const data::FixedLenFeature& feature);
ColumnTensors read_column(const ExampleColumn& column, const PaddedFeature& feature);
ColumnTensors read_column(const ExampleColumn& column, const RawFeature& feature);

/// The number of bytes of one value of `RawFeature`; unset if any number is valid.
std::optional<std::size_t> wanted_bytes(const RawFeature& feature);

}  // namespace brigade::input::internal
