#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
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

/// The collection for end points that were asked for by name: `models::ModelOptions::end_points`
/// fills it, and so does a layer with `.outputs_collections = {layers::kEndPoints}`;
/// `train::extract_features` reads it.
inline constexpr const char* kEndPoints = "end_points";

/// Adds those of `points` that `wanted` names to the collection `kEndPoints` of the calling
/// thread's graph, under these very names, whatever scopes are open. Without a graph adds none.
/// Throws kInvalidArgument, as `check_end_points`.
void add_end_points(std::string_view model, const EndPoints& points,
                    std::span<const std::string> wanted);

/// Throws kInvalidArgument for the first of `wanted` that is not `known`, with the nearest and all
/// known names; `model` is whose end points they are.
void check_end_points(std::string_view model, std::span<const std::string> wanted,
                      const std::vector<std::string>& known);

}  // namespace brigade::layers
