#include "brigade/input/tensor_padding.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/rows.h"

namespace brigade::data {
namespace {

using Shape = std::vector<std::int64_t>;

std::string text_of(at::IntArrayRef sizes) {
  return base::str_cat("[", base::join(sizes, ", "), "]");
}

std::string text_of(const at::Scalar& value) {
  return value.isFloatingPoint() ? base::str_cat(value.toDouble())
                                 : base::str_cat(value.to<std::int64_t>());
}

void check_alike(const std::vector<at::Tensor>& elements) {
  const at::Tensor& first = elements[0];
  for (std::size_t i = 1; i < elements.size(); ++i) {
    const at::Tensor& element = elements[i];
    if (element.dim() == first.dim() && element.scalar_type() == first.scalar_type() &&
        element.device() == first.device()) {
      continue;
    }
    refuse(
        "The elements of a padded batch must have one dtype and one number of dimensions: "
        "element 0 is ",
        first.dtype().name(), " ", text_of(first.sizes()), ", element ", i, " is ",
        element.dtype().name(), " ", text_of(element.sizes()));
  }
}

/// The requested sizes, -1 for the largest.
Shape wanted_shape(const TensorPadding& options, std::int64_t dimensions) {
  if (options.shape) {
    check_argument(static_cast<std::int64_t>(options.shape->size()) == dimensions, "Elements with ",
                   dimensions, " dimensions cannot be padded to the shape ",
                   text_of(*options.shape));
    return *options.shape;
  }
  Shape shape(static_cast<std::size_t>(dimensions), -1);
  if (options.length && dimensions > 0) shape[0] = *options.length;
  return shape;
}

Shape padded_shape(const std::vector<at::Tensor>& elements, const TensorPadding& options) {
  const Shape wanted = wanted_shape(options, elements[0].dim());
  Shape shape = wanted;
  for (const at::Tensor& element : elements) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::int64_t size = element.size(static_cast<std::int64_t>(i));
      if (wanted[i] < 0) {
        shape[i] = std::max(shape[i], size);
      } else if (size > wanted[i]) {
        refuse("An element of shape ", text_of(element.sizes()), " cannot be padded to ",
               text_of(wanted), ": pad to more, or truncate it before");
      }
    }
  }
  return shape;
}

void copy_into_corner(at::Tensor target, const at::Tensor& element) {
  for (std::int64_t i = 0; i < element.dim(); ++i) target = target.narrow(i, 0, element.size(i));
  target.copy_(element);
}

}  // namespace

void Padding<at::Tensor>::check(const TensorPadding& options) {
  for (const std::int64_t size : options.shape.value_or(Shape())) {
    check_argument(size >= -1, "padding: a size of the shape is ", size,
                   "; it must be 0 or more, or -1 for the largest");
  }
  internal::check_padded_length(options.length);
}

std::string Padding<at::Tensor>::describe(const TensorPadding& options) {
  std::string text;
  if (options.shape) text += base::str_cat(", to ", text_of(*options.shape));
  if (!options.shape && options.length) text += base::str_cat(", to length ", *options.length);
  const std::string value = text_of(options.value);
  if (value != "0") text += base::str_cat(", with ", value);
  return text;
}

TensorPadding Padding<at::Tensor>::with_length(const TensorPadding& options, std::int64_t length) {
  TensorPadding padding = options;
  if (!padding.shape) {
    padding.length = options.length.value_or(length);
    return padding;
  }
  std::replace(padding.shape->begin(), padding.shape->end(), std::int64_t{-1}, length);
  return padding;
}

at::Tensor Padding<at::Tensor>::stack(std::vector<at::Tensor>&& elements,
                                      const TensorPadding& options) {
  check_argument(!elements.empty(), "A batch of no elements has no shape");
  check_alike(elements);
  const Shape shape = padded_shape(elements, options);
  const bool is_padded = std::any_of(elements.begin(), elements.end(), [&](const auto& element) {
    return element.sizes() != at::IntArrayRef(shape);
  });
  if (!is_padded) return input::stack_rows(elements);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  Shape batch_shape{static_cast<std::int64_t>(elements.size())};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  at::Tensor batch = at::full(batch_shape, options.value, input::batch_options(elements[0]));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    copy_into_corner(batch.select(0, static_cast<std::int64_t>(i)), elements[i]);
  }
  return batch;
}

}  // namespace brigade::data
