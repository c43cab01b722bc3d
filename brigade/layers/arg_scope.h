#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/layers/layer_arguments.h"

namespace brigade::layers {

/// What `arg_scope` needs to know about a layer.
struct LayerKind {
  std::string_view name;
  std::vector<std::string_view> (*takes)();  ///< the names of its arguments, in order
};

template <class Options>
constexpr LayerKind layer_kind(std::string_view name) {
  return {name, argument_names<Options>};
}

struct NotALayer {};

/// The kind of a layer function. To make your own function a layer for argument scopes (Slim:
/// `add_arg_scope`), add a specialization next to its declaration, and pass its options through
/// `with_defaults`:
///
///   at::Tensor bottleneck(const at::Tensor& inputs, const BottleneckOptions& options = {});
///   template <> inline constexpr auto kLayerKind<bottleneck> =
///       layer_kind<BottleneckOptions>("bottleneck");
template <auto Function>
inline constexpr NotALayer kLayerKind{};

/// The arguments of one `arg_scope` call. Immutable.
struct ArgScopeEntry {
  std::vector<const LayerKind*> kinds;
  LayerArguments arguments;
  bool covers(const LayerKind& kind) const;
};

/// Captured defaults, which can be applied again elsewhere. A value.
using CapturedArgScope = std::vector<std::shared_ptr<const ArgScopeEntry>>;  // innermost first

/// An argument scope that is open on this thread during the lifetime of this object. Made by
/// `arg_scope`. Replicas that start inside it inherit it.
class [[nodiscard]] ArgScope {
 public:
  ArgScope(std::initializer_list<const LayerKind*> kinds, LayerArguments arguments);
  explicit ArgScope(CapturedArgScope captured);
  ArgScope(const ArgScope&) = delete;
  ArgScope& operator=(const ArgScope&) = delete;

  const CapturedArgScope& entries() const { return entries_; }
  /// The next scope that applies; null after a captured scope, which hides the outer ones.
  const ArgScope* outer() const { return outer_; }

 private:
  CapturedArgScope entries_;
  const ArgScope* outer_;
  base::AmbientScope<const ArgScope> opened_;
};

inline constexpr base::AmbientSlot<const ArgScope> kArgScopeSlot{
    base::AmbientIndex::kArgumentScope};

/// Sets default arguments of the layers named in the angle brackets while the result is alive.
/// Scopes nest: the call's argument takes precedence over the inner scope's, which takes precedence
/// over the outer scope's. TensorFlow: slim.arg_scope.
///
///   CapturedArgScope inception_v3_arg_scope(double weight_decay = 4e-5, double stddev = 0.1) {
///     const auto weights = arg_scope<conv2d, fully_connected>(
///         {.weights_regularizer = l2_regularizer(weight_decay)});
///     const auto convolutions = arg_scope<conv2d>(
///         {.activation = relu,
///          .normalizer = batch_normalizer({.decay = 0.9997, .epsilon = 0.001}),
///          .weights_initializer = truncated_normal_initializer(0.0, stddev)});
///     return current_arg_scope();
///   }
///   ...
///   const auto defaults = arg_scope(inception_v3_arg_scope());
///   const auto mode_everywhere = arg_scope<batch_norm, dropout>({.mode = mode});
///
/// Throws kInvalidArgument, naming it, for an argument that one of the layers does not take. A
/// function that is not a layer does not compile.
template <auto... Functions>
requires(sizeof...(Functions) > 0) ArgScope arg_scope(LayerArguments arguments) {
  static_assert(
      (std::is_same_v<std::remove_cvref_t<decltype(kLayerKind<Functions>)>, LayerKind> && ...),
      "arg_scope: one of these functions is no layer that takes default arguments; see "
      "kLayerKind");
  return ArgScope({&kLayerKind<Functions>...}, std::move(arguments));
}

/// Replaces the current defaults by the captured ones. As in Slim, arguments cannot be given at the
/// same time: open a second scope inside.
inline ArgScope arg_scope(CapturedArgScope captured) {
  return ArgScope(std::move(captured));
}

/// All current defaults.
CapturedArgScope current_arg_scope();

/// The names of the arguments that `arg_scope` can give to a layer. TensorFlow:
/// slim.arg_scoped_arguments.
template <auto Function>
std::vector<std::string_view> arg_scoped_arguments() {
  return kLayerKind<Function>.takes();
}

/// Fills unset fields of `options` with the current defaults for `kind`. For layers.
template <class Options>
Options with_defaults(const LayerKind& kind, Options options) {
  const auto fill = [](std::string_view, auto& own, const auto& given) {
    if (!is_set(own) && is_set(given)) own = given;
  };
  for (const ArgScope* scope = kArgScopeSlot.get(); scope != nullptr; scope = scope->outer()) {
    for (const auto& entry : scope->entries()) {
      if (entry->covers(kind)) visit_arguments(options, entry->arguments, fill);
    }
  }
  return options;
}

/// The same for any layer's options, as `LayerArguments`.
template <class Options>
LayerArguments arguments_in_force(const LayerKind& kind, const Options& options) {
  LayerArguments arguments;
  visit_arguments(options, arguments, [](std::string_view, const auto& own, auto& argument) {
    if (is_set(own)) argument = own;
  });
  return with_defaults(kind, std::move(arguments));
}

}  // namespace brigade::layers
