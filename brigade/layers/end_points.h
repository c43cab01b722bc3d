#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/graph.h"

namespace brigade::layers {

/// Results of layers by layer name, in the order of creation.
///
/// Thread-safety: a value.
class EndPoints {
 public:
  EndPoints() = default;
  explicit EndPoints(std::vector<variables::GraphTensor> points) : points_(std::move(points)) {}

  /// Adds an end point, or replaces the one with this name.
  void set(const std::string& name, at::Tensor value);
  bool contains(std::string_view name) const;
  /// Throws kNotFound, listing the existing names.
  const at::Tensor& at(std::string_view name) const;

  std::size_t size() const { return points_.size(); }
  auto begin() const { return points_.begin(); }
  auto end() const { return points_.end(); }

 private:
  std::vector<variables::GraphTensor> points_;
};

/// The results of this pass's layers with `.outputs_collections = {collection}`, by the names of
/// their scopes ("tower_0/conv1"). For several with one name, the last. TensorFlow:
/// slim.utils.convert_collection_to_dict. Throws kFailedPrecondition without a graph.
EndPoints end_points(const std::string& collection, std::string_view scope = "");

}  // namespace brigade::layers
