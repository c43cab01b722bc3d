#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "brigade/data/formats/example_view.h"
#include "brigade/input/example_features.h"

/// How `ExampleFeatures` makes a tensor of one feature. Not for others.
namespace brigade::input::internal {

/// One feature of the N examples of a batch, not read yet.
///
/// Thread-safety: immutable. Lifetime: that of what it names.
struct ExampleColumn {
  const std::string& name;
  std::span<const data::FeatureView> examples;
};

struct ColumnTensors {
  at::Tensor values;                       ///< [N, ...]
  std::optional<at::Tensor> lengths = {};  ///< int64 [N], where they were asked for
};

ColumnTensors read_column(const ExampleColumn& column, const data::FixedLenFeature& feature);
ColumnTensors read_column(const ExampleColumn& column, const PaddedFeature& feature);
ColumnTensors read_column(const ExampleColumn& column, const RawFeature& feature);

/// The bytes of one value of `RawFeature`, or nothing if any number will do.
std::optional<std::size_t> wanted_bytes(const RawFeature& feature);

}  // namespace brigade::input::internal
