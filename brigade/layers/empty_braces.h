#pragma once

#include <initializer_list>

namespace brigade::layers {

/// Accepts `{}` alone. A function with options that libtorch has under the same name needs an
/// overload with it: to an unqualified `huber_loss(a, b, {})` the functions of namespace at are
/// candidates, and to them `{}` is the number 0, which overload resolution prefers to the options
/// of the layer. Nothing is preferred to an initializer list.
///
/// Not for functions that are arguments of `arg_scope`, which must not be overloaded.
class EmptyBraces {
 public:
  EmptyBraces() = delete;
  EmptyBraces(const EmptyBraces&) = delete;
  EmptyBraces& operator=(const EmptyBraces&) = delete;
};
using NoOptions = std::initializer_list<EmptyBraces>;

}  // namespace brigade::layers
