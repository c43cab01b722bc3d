#include "brigade/input/named_tensors.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/rows.h"
#include "brigade/input/tensor_codec.h"

namespace brigade {

using base::str_cat;
using input::NamedTensors;

namespace input {
namespace {

void check_distinct(const NamedTensors::Names& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    check_argument(std::find(names.begin(), name, *name) == name, "NamedTensors: the name \"",
                   *name, "\" occurs twice");
  }
}

}  // namespace

NamedTensors::NamedTensors(std::vector<std::pair<std::string, at::Tensor>> tensors) {
  Names names;
  for (auto& [name, tensor] : tensors) {
    names.push_back(std::move(name));
    tensors_.push_back(std::move(tensor));
  }
  check_distinct(names);
  names_ = std::make_shared<const Names>(std::move(names));
}

NamedTensors::NamedTensors(std::shared_ptr<const Names> names, std::vector<at::Tensor> tensors)
    : names_(std::move(names)), tensors_(std::move(tensors)) {
  if (names_->size() == tensors_.size()) return;
  refuse("NamedTensors: there are ", names_->size(), " names for ", tensors_.size(), " tensors");
}

std::size_t NamedTensors::index_of(std::string_view name) const {
  const auto found = std::find(names_->begin(), names_->end(), name);
  if (found != names_->end()) return static_cast<std::size_t>(found - names_->begin());
  throw Error(ErrorCode::kNotFound, "There is no tensor \"", name,
              "\"; there are: ", base::join(*names_, ", "));
}

const at::Tensor& NamedTensors::operator[](std::string_view name) const {
  return tensors_[index_of(name)];
}

bool NamedTensors::contains(std::string_view name) const {
  return std::find(names_->begin(), names_->end(), name) != names_->end();
}

NamedTensors NamedTensors::with(const std::string& name, at::Tensor tensor) const {
  NamedTensors result = *this;
  if (contains(name)) {
    result.tensors_[index_of(name)] = std::move(tensor);
    return result;
  }
  Names names = *names_;
  names.push_back(name);
  result.names_ = std::make_shared<const Names>(std::move(names));
  result.tensors_.push_back(std::move(tensor));
  return result;
}

NamedTensors NamedTensors::without(std::string_view name) const {
  const auto index = static_cast<std::ptrdiff_t>(index_of(name));
  NamedTensors result = *this;
  Names names = *names_;
  names.erase(names.begin() + index);
  result.names_ = std::make_shared<const Names>(std::move(names));
  result.tensors_.erase(result.tensors_.begin() + index);
  return result;
}

}  // namespace input

namespace data {
namespace {

void check_same_names(const std::vector<NamedTensors>& elements) {
  check_argument(!elements.empty(), "A batch of no elements has no shape");
  const NamedTensors& first = elements[0];
  for (std::size_t i = 1; i < elements.size(); ++i) {
    if (elements[i].shared_names() == first.shared_names()) continue;
    if (elements[i].names() == first.names()) continue;
    refuse(
        "The elements of a batch must have tensors of the same names in the same order: "
        "element 0 has ",
        base::join(first.names(), ", "), "; element ", i, " has ",
        base::join(elements[i].names(), ", "));
  }
}

/// Joins the tensors of each name by `join(name, tensors)`; errors say of which.
template <class Join>
NamedTensors by_name(std::vector<NamedTensors>&& elements, const Join& join) {
  check_same_names(elements);
  const auto names = elements[0].shared_names();
  std::vector<at::Tensor> joined;
  for (std::size_t i = 0; i < names->size(); ++i) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(elements.size());
    for (const NamedTensors& element : elements) tensors.push_back(element.tensors()[i]);
    try {
      joined.push_back(join((*names)[i], std::move(tensors)));
    } catch (const Error& error) {
      throw Error(error.code(), "\"", (*names)[i], "\": ", error.what());
    }
  }
  return NamedTensors(names, std::move(joined));
}

}  // namespace

std::uint64_t ByteSize<NamedTensors>::of(const NamedTensors& element) {
  std::uint64_t bytes = sizeof element;
  for (const at::Tensor& tensor : element.tensors()) bytes += ByteSize<at::Tensor>::of(tensor);
  return bytes;
}

NamedTensors Structure<NamedTensors>::stack(std::vector<NamedTensors>&& elements) {
  return by_name(std::move(elements), [](const std::string&, std::vector<at::Tensor>&& tensors) {
    return input::stack_rows(tensors);
  });
}

std::int64_t Structure<NamedTensors>::size(const NamedTensors& batch) {
  check_argument(!batch.tensors().empty(), "A batch without tensors has no size");
  const std::int64_t count = input::row_count(batch.tensors()[0]);
  for (std::size_t i = 1; i < batch.tensors().size(); ++i) {
    const std::int64_t other = input::row_count(batch.tensors()[i]);
    if (other == count) continue;
    refuse("A batch has ", count, " rows of \"", batch.names()[0], "\" but ", other, " of \"",
           batch.names()[i], "\"");
  }
  return count;
}

NamedTensors Structure<NamedTensors>::slice(const NamedTensors& batch, std::int64_t begin,
                                            std::int64_t end) {
  return map_tensors(
      batch, [=](const at::Tensor& tensor) { return input::rows_between(tensor, begin, end); });
}

NamedTensors Unbatch<NamedTensors>::element(const NamedTensors& batch, std::int64_t index) {
  return map_tensors(batch,
                     [index](const at::Tensor& tensor) { return input::row_of(tensor, index); });
}

NamedTensors Unbatch<NamedTensors>::concatenate(std::vector<NamedTensors>&& parts) {
  return by_name(std::move(parts), [](const std::string&, std::vector<at::Tensor>&& tensors) {
    return input::join_rows(tensors);
  });
}

void Padding<NamedTensors>::check(const Options& options) {
  for (const auto& [name, padding] : options) Padding<at::Tensor>::check(padding);
}

std::string Padding<NamedTensors>::describe(const Options& options) {
  std::string text;
  for (const auto& [name, padding] : options) {
    text += str_cat(", ", name, Padding<at::Tensor>::describe(padding));
  }
  return text;
}

Padding<NamedTensors>::Options Padding<NamedTensors>::with_length(const Options& options,
                                                                  std::int64_t length) {
  Options result = options;
  for (auto& [name, padding] : result) {
    padding = Padding<at::Tensor>::with_length(padding, length);
  }
  return result;
}

NamedTensors Padding<NamedTensors>::stack(std::vector<NamedTensors>&& elements,
                                          const Options& options) {
  check_argument(!elements.empty(), "A batch of no elements has no shape");
  for (const auto& [name, padding] : options) elements[0][name];  // must be there
  return by_name(
      std::move(elements), [&](const std::string& name, std::vector<at::Tensor>&& tensors) {
        const auto found = options.find(name);
        return Padding<at::Tensor>::stack(std::move(tensors),
                                          found == options.end() ? TensorPadding() : found->second);
      });
}

void Codec<NamedTensors>::encode(const NamedTensors& element, Encoder& to) {
  encode_all(to, element.names(), element.tensors());
}

NamedTensors Codec<NamedTensors>::decode(Decoder& from) {
  auto names = Codec<NamedTensors::Names>::decode(from);
  auto tensors = Codec<std::vector<at::Tensor>>::decode(from);
  if (names.size() != tensors.size()) {
    throw Error(ErrorCode::kDataLoss, "The bytes are not named tensors: there are ", names.size(),
                " names for ", tensors.size(), " tensors; they are corrupt");
  }
  return NamedTensors(std::make_shared<const NamedTensors::Names>(std::move(names)),
                      std::move(tensors));
}

}  // namespace data
}  // namespace brigade
