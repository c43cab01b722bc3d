#include "brigade/layers/end_points.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::layers {

void EndPoints::set(const std::string& name, at::Tensor value) {
  const auto found = std::ranges::find(points_, name, &variables::GraphTensor::name);
  if (found != points_.end()) {
    found->value = std::move(value);
  } else {
    points_.push_back({name, std::move(value)});
  }
}

bool EndPoints::contains(std::string_view name) const {
  return std::ranges::find(points_, name, &variables::GraphTensor::name) != points_.end();
}

const at::Tensor& EndPoints::at(std::string_view name) const {
  const auto found = std::ranges::find(points_, name, &variables::GraphTensor::name);
  if (found != points_.end()) return found->value;
  std::vector<std::string> names;
  for (const auto& point : points_) names.push_back(point.name);
  throw Error(ErrorCode::kNotFound, base::str_cat("There is no end point '", name,
                                                  "'; there are: ", base::join(names, ", ")));
}

EndPoints end_points(const std::string& collection, std::string_view scope) {
  EndPoints points;
  for (auto& point : variables::require_graph("end_points").collection(collection, scope)) {
    points.set(point.name, std::move(point.value));
  }
  return points;
}

}  // namespace brigade::layers
