#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/graph.h"

namespace brigade::layers {

/// Results of layers by the names of the layers, in the order of their making.
///
/// Thread-safety: a value.
class EndPoints {
 public:
  EndPoints() = default;
  explicit EndPoints(std::vector<variables::NamedTensor> points) : points_(std::move(points)) {}

  /// Adds one, or replaces the one of this name.
  void set(const std::string& name, at::Tensor value);
  bool contains(std::string_view name) const;
  /// Throws kNotFound, listing the names there are.
  const at::Tensor& at(std::string_view name) const;

  std::size_t size() const { return points_.size(); }
  auto begin() const { return points_.begin(); }
  auto end() const { return points_.end(); }

 private:
  std::vector<variables::NamedTensor> points_;
};

/// What layers with `.outputs_collections = {collection}` have made in this pass, under the names
/// of their scopes ("tower_0/conv1"). Of several under one name, the last. TensorFlow:
/// slim.utils.convert_collection_to_dict. Throws kFailedPrecondition without a graph.
EndPoints end_points(const std::string& collection, std::string_view scope = "");

}  // namespace brigade::layers
