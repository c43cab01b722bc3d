#include "brigade/layers/arg_scope.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::layers {
namespace {

void check_takes(const LayerKind& kind, const LayerArguments& arguments) {
  const auto takes = kind.takes();
  LayerArguments copy = arguments;
  visit_arguments(copy, arguments, [&](std::string_view name, const auto&, const auto& given) {
    if (!is_set(given) || std::ranges::find(takes, name) != takes.end()) return;
    throw Error(ErrorCode::kInvalidArgument, "arg_scope: ", kind.name, " takes no argument ", name,
                "; it takes ", base::join(takes, ", "),
                ". Give it in a scope of the layers that take it.");
  });
}

CapturedArgScope checked(std::initializer_list<const LayerKind*> kinds, LayerArguments arguments) {
  for (const LayerKind* kind : kinds) check_takes(*kind, arguments);
  return {std::make_shared<const ArgScopeEntry>(
      ArgScopeEntry{.kinds = kinds, .arguments = std::move(arguments)})};
}

}  // namespace

bool ArgScopeEntry::covers(const LayerKind& kind) const {
  return std::ranges::find(kinds, &kind) != kinds.end();
}

ArgScope::ArgScope(std::initializer_list<const LayerKind*> kinds, LayerArguments arguments)
    : entries_(checked(kinds, std::move(arguments))),
      outer_(kArgScopeSlot.get()),
      opened_(kArgScopeSlot, this) {}

ArgScope::ArgScope(CapturedArgScope captured)
    : entries_(std::move(captured)), outer_(nullptr), opened_(kArgScopeSlot, this) {}

CapturedArgScope current_arg_scope() {
  CapturedArgScope captured;
  for (const ArgScope* scope = kArgScopeSlot.get(); scope != nullptr; scope = scope->outer()) {
    captured.insert(captured.end(), scope->entries().begin(), scope->entries().end());
  }
  return captured;
}

}  // namespace brigade::layers
