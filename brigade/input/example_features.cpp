#include "brigade/input/example_features.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/formats/example_view.h"
#include "brigade/device/dtypes.h"
#include "brigade/input/example_columns.h"
#include "brigade/input/rows.h"

namespace brigade::input {
namespace {

using base::str_cat;
using data::FeatureKind;
using data::FeatureView;

[[noreturn]] void fail(const TensorFeature& feature, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, str_cat("The feature \"", feature.name, "\" ", why));
}

/// The equivalent feature for the parser without torch, which checks names, shapes and defaults.
data::FeatureSpec plain(const TensorFeature& feature) {
  const auto values = [&](const auto& wanted) -> decltype(data::FeatureSpec::values) {
    using Wanted = std::decay_t<decltype(wanted)>;
    if constexpr (std::is_same_v<Wanted, data::FixedLenFeature>) return wanted;
    if constexpr (std::is_same_v<Wanted, PaddedFeature>) {
      return data::FixedLenFeature{.kind = wanted.kind, .shape = wanted.shape};
    }
    if constexpr (std::is_same_v<Wanted, RawFeature>) {
      using Shape = std::vector<std::int64_t>;
      return data::FixedLenFeature{.kind = FeatureKind::kBytes,
                                   .shape = wanted.shape.value_or(Shape())};
    }
  };
  return {feature.name, std::visit(values, feature.values)};
}

void check_no_bytes(const TensorFeature& feature, FeatureKind kind) {
  if (kind == FeatureKind::kBytes) {
    fail(feature, "is requested as bytes, which tensors cannot hold; use RawFeature");
  }
}

void check(const TensorFeature& feature, const data::FixedLenFeature& fixed) {
  check_no_bytes(feature, fixed.kind);
}

void check(const TensorFeature& feature, const PaddedFeature& padded) {
  check_no_bytes(feature, padded.kind);
  if (std::find(padded.shape.begin(), padded.shape.end(), 0) != padded.shape.end()) {
    fail(feature, str_cat("has steps of shape [", base::join(padded.shape, ", "),
                          "], which have no values; dimensions must be 1 or more"));
  }
  if (padded.kind == FeatureKind::kInt64 && !padded.padding.isIntegral(/*includeBool=*/false)) {
    fail(feature, "is int64, and its padding is not a whole number");
  }
}

void check(const TensorFeature& feature, const RawFeature& raw) {
  if (!device::file_dtype_of(raw.dtype) || raw.dtype == at::kBool) {
    fail(feature, str_cat("is requested as ", toString(raw.dtype), "; allowed are ",
                          device::file_dtype_names(), ", but not bool"));
  }
  if (raw.shape && !raw.lengths.empty()) {
    fail(feature, "has a shape, so all lengths are the same; leave out `lengths`");
  }
  if (!raw.default_value) return;
  const std::size_t bytes = raw.default_value->size();
  const auto wanted = internal::wanted_bytes(raw);
  const std::size_t width = c10::elementSize(raw.dtype);
  if (wanted && bytes != *wanted) {
    fail(feature, str_cat("has a default of ", bytes, " bytes; its shape needs ", *wanted));
  }
  if (bytes % width != 0) {
    fail(feature, str_cat("has a default of ", bytes, " bytes; ", toString(raw.dtype),
                          " needs a multiple of ", width));
  }
}

std::string lengths_of(const TensorFeature& feature) {
  return std::visit(
      [](const auto& wanted) -> std::string {
        if constexpr (requires { wanted.lengths; }) return wanted.lengths;
        return {};
      },
      feature.values);
}

NamedTensors::Names names_of(const std::vector<TensorFeature>& features) {
  NamedTensors::Names names;
  for (const TensorFeature& feature : features) {
    names.push_back(feature.name);
    if (auto lengths = lengths_of(feature); !lengths.empty()) names.push_back(std::move(lengths));
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    check_argument(std::find(names.begin(), name, *name) == name,
                   str_cat("The feature \"", *name,
                           "\" is requested twice, or lengths have "
                           "the same name; choose another name"));
  }
  return names;
}

/// The features of N examples, not read yet: those of the first feature, of the second, ...
class Found {
 public:
  Found(const std::vector<TensorFeature>& features, std::size_t examples)
      : features_(features), examples_(examples), views_(features.size() * examples) {}

  /// If a name occurs twice, the last one counts.
  void look_through(std::string_view bytes, std::size_t example) {
    data::ExampleView view(bytes);
    std::size_t guess = 0;  // features usually have the same order in every example
    while (view.next()) {
      const std::size_t feature = index_of(view.name(), guess);
      if (feature == features_.size()) continue;
      views_[feature * examples_ + example] = view.feature();
      guess = feature + 1;
    }
  }

  NamedTensors read(const std::shared_ptr<const NamedTensors::Names>& names) const {
    std::vector<at::Tensor> tensors;
    tensors.reserve(names->size());
    for (std::size_t i = 0; i < features_.size(); ++i) {
      const std::span all(views_);
      const internal::ExampleColumn column{features_[i].name,
                                           all.subspan(i * examples_, examples_)};
      auto read =
          std::visit([&](const auto& wanted) { return internal::read_column(column, wanted); },
                     features_[i].values);
      tensors.push_back(std::move(read.values));
      if (read.lengths) tensors.push_back(*std::move(read.lengths));
    }
    return NamedTensors(names, std::move(tensors));
  }

 private:
  std::size_t index_of(std::string_view name, std::size_t guess) const {
    if (guess < features_.size() && features_[guess].name == name) return guess;
    std::size_t index = 0;
    while (index < features_.size() && features_[index].name != name) ++index;
    return index;
  }

  const std::vector<TensorFeature>& features_;
  std::size_t examples_;
  std::vector<FeatureView> views_;
};

}  // namespace

ExampleFeatures::ExampleFeatures(std::vector<TensorFeature> features) {
  std::vector<data::FeatureSpec> specs;
  for (const TensorFeature& feature : features) specs.push_back(plain(feature));
  const data::ExampleParser checked(std::move(specs));
  for (const TensorFeature& feature : features) {
    std::visit([&](const auto& wanted) { check(feature, wanted); }, feature.values);
  }
  names_ = std::make_shared<const NamedTensors::Names>(names_of(features));
  features_ = std::make_shared<const std::vector<TensorFeature>>(std::move(features));
}

NamedTensors ExampleFeatures::operator()(std::string_view example) const {
  Found found(*features_, 1);
  found.look_through(example, 0);
  const NamedTensors batch = found.read(names_);
  return map_tensors(batch, [](const at::Tensor& tensor) { return row_of(tensor, 0); });
}

NamedTensors ExampleFeatures::operator()(const std::vector<std::string>& examples) const {
  Found found(*features_, examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    try {
      found.look_through(examples[i], i);
    } catch (const Error& error) {
      throw Error(error.code(),
                  str_cat("Example ", i, " of a batch, counted from 0: ", error.what()));
    }
  }
  return found.read(names_);
}

}  // namespace brigade::input
