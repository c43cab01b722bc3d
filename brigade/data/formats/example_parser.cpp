#include "brigade/data/formats/example_parser.h"

#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/formats/example_view.h"

namespace brigade::data {
namespace {

using base::str_cat;

[[noreturn]] void fail(const FeatureSpec& spec, const std::string& why) {
  refuse("The feature \"", spec.name, "\" ", why);
}

FeatureKind wanted_kind(const FeatureSpec& spec) {
  return std::visit([](const auto& values) { return values.kind; }, spec.values);
}

std::size_t count_of(const Feature& feature) {
  return std::visit(
      [](const auto& values) -> std::size_t {
        if constexpr (requires { values.size(); }) return values.size();
        return 0;
      },
      feature);
}

std::size_t wanted_count(const FixedLenFeature& fixed) {
  std::size_t count = 1;
  for (const std::int64_t dimension : fixed.shape) count *= static_cast<std::size_t>(dimension);
  return count;
}

void check_default(const FeatureSpec& spec, const FixedLenFeature& fixed) {
  const FeatureKind kind = kind_of(fixed.default_value);
  if (kind == FeatureKind::kNone) return;
  if (kind != fixed.kind) {
    fail(spec, str_cat("is requested as ", fixed.kind, ", but its default is ", kind));
  }
  if (count_of(fixed.default_value) != wanted_count(fixed)) {
    fail(spec, str_cat("has a default of ", count_of(fixed.default_value),
                       " values for its shape [", base::join(fixed.shape, ", "), "]"));
  }
}

void check_spec(const FeatureSpec& spec) {
  if (wanted_kind(spec) == FeatureKind::kNone) {
    fail(spec, "is requested as none; use kBytes, kFloat or kInt64");
  }
  const auto* fixed = std::get_if<FixedLenFeature>(&spec.values);
  if (fixed == nullptr) return;
  std::size_t count = 1;
  for (const std::int64_t dimension : fixed->shape) {
    if (dimension < 0 ||
        __builtin_mul_overflow(count, static_cast<std::size_t>(dimension), &count)) {
      fail(spec, str_cat("has the shape [", base::join(fixed->shape, ", "),
                         "]; dimensions must be 0 or more, and their product a size"));
    }
  }
  check_default(spec, *fixed);
}

Feature empty_list(FeatureKind kind) {
  if (kind == FeatureKind::kBytes) return BytesList();
  if (kind == FeatureKind::kFloat) return FloatList();
  return Int64List();
}

Feature missing(const FeatureSpec& spec) {
  const auto* fixed = std::get_if<FixedLenFeature>(&spec.values);
  if (fixed == nullptr) return empty_list(wanted_kind(spec));
  if (kind_of(fixed->default_value) != FeatureKind::kNone) return fixed->default_value;
  fail(spec, "is missing in an example, and it has no default");
}

Feature read(const FeatureSpec& spec, const FeatureView& view) {
  if (view.kind() == FeatureKind::kNone) return missing(spec);
  if (view.kind() != wanted_kind(spec)) {
    fail(spec, str_cat("is of kind ", view.kind(), " in an example; expected ", wanted_kind(spec)));
  }
  Feature feature = view.read();
  if (const auto* fixed = std::get_if<FixedLenFeature>(&spec.values)) {
    if (count_of(feature) != wanted_count(*fixed)) {
      fail(spec, str_cat("has ", count_of(feature), " values in an example; its shape [",
                         base::join(fixed->shape, ", "), "] needs ", wanted_count(*fixed)));
    }
  }
  return feature;
}

std::optional<std::size_t> find(const std::vector<FeatureSpec>& features, std::string_view name,
                                std::size_t guess) {
  if (guess < features.size() && features[guess].name == name) return guess;
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace

void internal::fail_feature_access(const ParsedExample& example, std::size_t feature,
                                   std::string_view wanted) {
  if (feature >= example.features.size()) {
    refuse("There is no feature ", feature, " in a parsed example of ", example.features.size(),
           ", counted from 0");
  }
  const Feature& found = example.features[feature];
  refuse("Feature ", feature, " of a parsed example, counted from 0, has ", count_of(found),
         " values of kind ", kind_of(found), "; requested ", wanted);
}

ExampleParser::ExampleParser(std::vector<FeatureSpec> features) : features_(std::move(features)) {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    check_spec(features_[i]);
    if (*find(features_, features_[i].name, 0) != i) fail(features_[i], "is requested twice");
  }
}

ParsedExample ExampleParser::operator()(std::string_view bytes) const {
  std::vector<FeatureView> found(features_.size());
  ExampleView view(bytes);
  std::size_t guess = 0;  // features usually have the same order in every example
  while (view.next()) {
    if (const auto index = find(features_, view.name(), guess)) {
      found[*index] = view.feature();
      guess = *index + 1;
    }
  }
  ParsedExample example;
  example.features.reserve(features_.size());
  for (std::size_t i = 0; i < features_.size(); ++i) {
    example.features.push_back(read(features_[i], found[i]));
  }
  return example;
}

std::size_t ExampleParser::index_of(std::string_view name) const {
  if (const auto index = find(features_, name, features_.size())) return *index;
  std::vector<std::string_view> names;
  for (const FeatureSpec& spec : features_) names.push_back(spec.name);
  throw Error(ErrorCode::kNotFound, "The parser reads no feature \"", name,
              "\"; it reads: ", base::join(names, ", "));
}

}  // namespace brigade::data
