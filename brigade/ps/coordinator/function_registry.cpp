#include "brigade/ps/coordinator/function_registry.h"

#include <string_view>

#include "brigade/base/printable.h"

namespace brigade::ps {
namespace {

template <class Function>
const Function& function_named(const std::map<std::string, Function>& functions,
                               const std::string& name, std::string_view kind) {
  const auto found = functions.find(name);
  if (found != functions.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, function] : functions) names.push_back(each);
  throw Error(ErrorCode::kNotFound, "There is no ", kind, " ", base::quoted(name), " among [",
              base::listed(names, ", "), "]: register it in the coordinator and in all workers.");
}

}  // namespace

void FunctionTable::check_function(const std::string& name) const {
  function_named(functions_, name, "function");
}

void FunctionTable::check_dataset(const std::string& name) const {
  function_named(datasets_, name, "dataset function");
}

std::shared_ptr<void> FunctionTable::set_up(const WorkerContext& worker) const {
  std::shared_ptr<void> state = set_up_(worker);
  check_argument(state != nullptr, "The setup function of a FunctionRegistry has returned null.");
  return state;
}

FunctionData FunctionTable::call(const std::string& name, void* state,
                                 const FunctionCall& call) const {
  return function_named(functions_, name, "function")(state, call);
}

std::any FunctionTable::make_dataset(const std::string& name, void* state,
                                     const FunctionCall& call) const {
  return function_named(datasets_, name, "dataset function")(state, call);
}

void FunctionTable::check_new(const std::string& name) const {
  check_argument(!name.empty(), "A function is registered without a name.");
  if (functions_.contains(name) || datasets_.contains(name))
    throw Error(ErrorCode::kAlreadyExists, "Function ", base::quoted(name),
                " is registered twice.");
}

void FunctionTable::add_function(const std::string& name, Function function) {
  check_new(name);
  functions_.emplace(name, std::move(function));
}

void FunctionTable::add_dataset_function(const std::string& name, Dataset function) {
  check_new(name);
  datasets_.emplace(name, std::move(function));
}

}  // namespace brigade::ps
