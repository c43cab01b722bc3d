#include "brigade/input/example_features.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/formats/example_view.h"
#include "brigade/device/dtypes.h"
#include "brigade/input/rows.h"

namespace brigade::input {
namespace {

using base::str_cat;
using data::FeatureKind;
using data::FeatureView;
using Shape = std::vector<std::int64_t>;

/// One unparsed feature of the N examples of a batch.
///
/// Thread-safety: immutable. Lifetime: that of the objects it refers to.
struct ExampleColumn {
  const std::string& name;
  std::span<const FeatureView> examples;
};

struct ColumnTensors {
  at::Tensor values;                       ///< [N, ...]
  std::optional<at::Tensor> lengths = {};  ///< int64 [N], if requested
};

[[noreturn]] void fail(const ExampleColumn& column, std::size_t example, const std::string& why) {
  const bool is_batch = column.examples.size() > 1;
  const std::string source =
      is_batch ? str_cat("example ", example, " of a batch, counted from 0,") : "an example";
  refuse("The feature \"", column.name, "\" of ", source, " ", why);
}

std::string text_of(const Shape& shape) {
  return str_cat("[", base::join(shape, ", "), "]");
}

std::size_t product(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

/// N rows of `shape`, uninitialized.
at::Tensor rows_of(std::size_t count, const Shape& shape, at::ScalarType type) {
  Shape sizes{static_cast<std::int64_t>(count)};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::empty(sizes, at::TensorOptions(type));
}

/// Whether the feature is present; throws if it has another kind.
bool has(const ExampleColumn& column, std::size_t example, FeatureKind wanted) {
  const FeatureKind kind = column.examples[example].kind();
  if (kind == wanted) return true;
  if (kind == FeatureKind::kNone) return false;
  fail(column, example, str_cat("is of kind ", kind, "; expected ", wanted));
}

template <class T, class Take>
void each(const FeatureView& values, Take take) {
  if constexpr (std::is_same_v<T, float>) {
    values.each_float(take);
  } else {
    values.each_int64(take);
  }
}

/// Calls `read` with a value of the type that tensors of this kind hold.
template <class Read>
ColumnTensors with_type(FeatureKind kind, Read read) {
  return kind == FeatureKind::kFloat ? read(float()) : read(std::int64_t());
}

template <class T>
void read_fixed(const ExampleColumn& column, std::size_t example,
                const data::FixedLenFeature& feature, std::span<T> to) {
  if (!has(column, example, feature.kind)) {
    const auto* values = std::get_if<std::vector<T>>(&feature.default_value);
    if (values == nullptr) fail(column, example, "is missing, and has no default");
    std::copy(values->begin(), values->end(), to.begin());
    return;
  }
  std::size_t count = 0;
  each<T>(column.examples[example], [&](T value) {
    if (count < to.size()) to[count] = value;
    ++count;
  });
  if (count == to.size()) return;
  fail(column, example,
       str_cat("has ", count, " values; its shape ", text_of(feature.shape), " needs ", to.size()));
}

/// The concatenated values of all examples, and the end of each example's values.
template <class T>
struct Ragged {
  std::vector<T> values;
  std::vector<std::size_t> ends;
};

/// Rows with `steps` steps of `shape` each, padded with `padding` to the longest.
template <class T>
ColumnTensors padded(const Ragged<T>& ragged, const Shape& shape, T padding) {
  const std::size_t width = product(shape);
  std::size_t longest = 0;
  at::Tensor lengths = rows_of(ragged.ends.size(), {}, at::kLong);
  auto* length = lengths.mutable_data_ptr<std::int64_t>();
  std::size_t begin = 0;
  for (const std::size_t end : ragged.ends) {
    longest = std::max(longest, end - begin);
    *length++ = static_cast<std::int64_t>((end - begin) / width);
    begin = end;
  }
  Shape padded_shape{static_cast<std::int64_t>(longest / width)};
  padded_shape.insert(padded_shape.end(), shape.begin(), shape.end());
  at::Tensor rows = rows_of(ragged.ends.size(), padded_shape, c10::CppTypeToScalarType<T>::value);
  T* to = rows.mutable_data_ptr<T>();
  const T* from = ragged.values.data();
  begin = 0;
  for (const std::size_t end : ragged.ends) {
    const std::size_t count = end - begin;
    std::copy_n(from + begin, count, to);
    std::fill_n(to + count, longest - count, padding);
    to += longest;
    begin = end;
  }
  return {std::move(rows), std::move(lengths)};
}

template <class T>
Ragged<T> read_ragged(const ExampleColumn& column, const PaddedFeature& feature) {
  const std::size_t width = product(feature.shape);
  Ragged<T> ragged;
  for (std::size_t i = 0; i < column.examples.size(); ++i) {
    const std::size_t before = ragged.values.size();
    if (has(column, i, feature.kind)) {
      each<T>(column.examples[i], [&](T value) { ragged.values.push_back(value); });
    }
    const std::size_t count = ragged.values.size() - before;
    if (count % width != 0) {
      fail(column, i,
           str_cat("has ", count, " values; its steps of shape ", text_of(feature.shape),
                   " need a multiple of ", width));
    }
    ragged.ends.push_back(ragged.values.size());
  }
  return ragged;
}

/// The one value of a feature of bytes, or its default.
std::string_view raw_bytes(const ExampleColumn& column, std::size_t example,
                           const RawFeature& feature) {
  if (!has(column, example, FeatureKind::kBytes)) {
    if (feature.default_value) return *feature.default_value;
    fail(column, example, "is missing, and has no default");
  }
  std::string_view bytes;
  std::size_t count = 0;
  column.examples[example].each_bytes([&](std::string_view value) {
    bytes = value;
    ++count;
  });
  if (count != 1) fail(column, example, str_cat("has ", count, " values; expected one"));
  return bytes;
}

/// The number of bytes of one value of `RawFeature`; unset if any number is valid.
std::optional<std::size_t> wanted_bytes(const RawFeature& feature) {
  if (!feature.shape) return std::nullopt;
  return product(*feature.shape) * c10::elementSize(feature.dtype);
}

void check_raw_size(const ExampleColumn& column, std::size_t example, const RawFeature& feature,
                    std::size_t bytes) {
  const auto wanted = wanted_bytes(feature);
  if (wanted && bytes != *wanted) {
    fail(column, example,
         str_cat("has ", bytes, " bytes; its shape ", text_of(*feature.shape), " of ",
                 toString(feature.dtype), " needs ", *wanted));
  }
  const std::size_t width = c10::elementSize(feature.dtype);
  if (bytes % width != 0) {
    fail(column, example,
         str_cat("has ", bytes, " bytes; ", toString(feature.dtype), " needs a ", "multiple of ",
                 width));
  }
}

ColumnTensors read_column(const ExampleColumn& column, const data::FixedLenFeature& feature) {
  return with_type(feature.kind, [&]<class T>(T) -> ColumnTensors {
    at::Tensor rows =
        rows_of(column.examples.size(), feature.shape, c10::CppTypeToScalarType<T>::value);
    const std::size_t width = product(feature.shape);
    T* to = rows.mutable_data_ptr<T>();
    for (std::size_t i = 0; i < column.examples.size(); ++i, to += width) {
      read_fixed<T>(column, i, feature, {to, width});
    }
    return {std::move(rows)};
  });
}

ColumnTensors read_column(const ExampleColumn& column, const PaddedFeature& feature) {
  ColumnTensors tensors = with_type(feature.kind, [&]<class T>(T) {
    return padded(read_ragged<T>(column, feature), feature.shape, feature.padding.to<T>());
  });
  if (feature.lengths.empty()) tensors.lengths.reset();
  return tensors;
}

ColumnTensors read_column(const ExampleColumn& column, const RawFeature& feature) {
  std::vector<std::string_view> values;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < column.examples.size(); ++i) {
    values.push_back(raw_bytes(column, i, feature));
    check_raw_size(column, i, feature, values.back().size());
    longest = std::max(longest, values.back().size());
  }
  const std::size_t width = c10::elementSize(feature.dtype);
  const Shape shape = feature.shape.value_or(Shape{static_cast<std::int64_t>(longest / width)});
  ColumnTensors tensors{rows_of(values.size(), shape, feature.dtype)};
  at::Tensor lengths = rows_of(values.size(), {}, at::kLong);
  auto* to = static_cast<char*>(tensors.values.mutable_data_ptr());
  auto* length = lengths.mutable_data_ptr<std::int64_t>();
  for (const std::string_view value : values) {
    if (longest > 0) {  // otherwise the data pointer may be null
      std::copy(value.begin(), value.end(), to);
      std::fill_n(to + value.size(), longest - value.size(), '\0');
    }
    to += longest;
    *length++ = static_cast<std::int64_t>(value.size() / width);
  }
  if (!feature.lengths.empty()) tensors.lengths = std::move(lengths);
  return tensors;
}

[[noreturn]] void fail(const TensorFeature& feature, const std::string& why) {
  refuse("The feature \"", feature.name, "\" ", why);
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
  const auto wanted = wanted_bytes(raw);
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
    check_argument(std::find(names.begin(), name, *name) == name, "The feature \"", *name,
                   "\" is requested twice, or lengths have the same name; choose another name");
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
      const ExampleColumn column{features_[i].name, all.subspan(i * examples_, examples_)};
      auto read = std::visit([&](const auto& wanted) { return read_column(column, wanted); },
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
      throw Error(error.code(), "Example ", i, " of a batch, counted from 0: ", error.what());
    }
  }
  return found.read(names_);
}

}  // namespace brigade::input
