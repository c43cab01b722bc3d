#include "brigade/layers/end_points.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::layers {
namespace {

std::vector<std::string> names_of(const EndPoints& points) {
  std::vector<std::string> names;
  for (const variables::GraphTensor& point : points) names.push_back(point.name);
  return names;
}

}  // namespace

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
  throw Error(ErrorCode::kNotFound, "There is no end point '", name,
              "'; there are: ", base::join(names_of(*this), ", "));
}

EndPoints end_points(const std::string& collection, std::string_view scope) {
  EndPoints points;
  for (auto& point : variables::require_graph("end_points").collection(collection, scope)) {
    points.set(point.name, std::move(point.value));
  }
  return points;
}

void add_end_points(std::string_view model, const EndPoints& points,
                    std::span<const std::string> wanted) {
  if (wanted.empty()) return;
  check_end_points(model, wanted, names_of(points));
  variables::Graph* graph = variables::current_graph();
  if (graph == nullptr) return;
  // A name that ends in a slash is complete.
  for (const std::string& name : wanted)
    graph->add_to_collection(kEndPoints, name + "/", points.at(name));
}

void check_end_points(std::string_view model, std::span<const std::string> wanted,
                      const std::vector<std::string>& known) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) == known.end())
      throw base::unknown_name(base::str_cat("end point of ", model), name, "End points", known);
  }
}

}  // namespace brigade::layers
