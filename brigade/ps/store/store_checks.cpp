#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/device/dtypes.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/update_record.h"

/// What a store refuses, before anything is changed.
namespace brigade::ps {
namespace {

constexpr const char* kNotCreated =
    "The server has no variables yet: its chief creates them before workers pull or push.";

std::string shape_text(at::ScalarType dtype, at::IntArrayRef sizes) {
  const auto known = device::file_dtype_of(dtype);
  return base::str_cat(known ? known->name : "another dtype", " [", base::join(sizes.vec(), ", "),
                       "]");
}

void check_like(const Parameter& own, std::string_view what, std::string_view name,
                const at::Tensor& tensor) {
  check_recordable({.name = std::string(name), .tensor = tensor});
  check_argument(own.sizes() == tensor.sizes() && own.dtype() == tensor.scalar_type(), "The ", what,
                 " of ", base::quoted(name), " is ",
                 shape_text(tensor.scalar_type(), tensor.sizes()), ", and the variable is ",
                 shape_text(own.dtype(), own.sizes()), ".");
}

}  // namespace

void ParameterStore::check_usable() const {
  check_state(!has_failed_,
              "An update of the server's variables failed in the middle: restart the server, which "
              "then applies it from its log.");
}

/// After values were read: a change before them may have failed before it reached its variables. It
/// records that before it releases its tickets.
void ParameterStore::check_still_usable() const {
  const concurrency::MutexLock lock(order_);
  check_usable();
}

void ParameterStore::check_created() const {
  check_state(state_.rule != nullptr, kNotCreated);
}

Parameter& ParameterStore::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  if (found != parameters_.end()) return *found->second;
  throw Error(ErrorCode::kNotFound,
              state_.rule == nullptr
                  ? std::string(kNotCreated)
                  : base::str_cat("The server has no variable ", base::quoted(name), "."));
}

void ParameterStore::check_gradients(std::span<const checkpoint::NamedTensor> gradients,
                                     std::span<const RowGradient> rows) const try {
  std::set<std::string_view> names;
  const auto trainable = [&](const std::string& name) -> const Parameter& {
    const Parameter& own = parameter(name);
    check_argument(names.insert(name).second, "A push has two gradients of ", base::quoted(name),
                   ".");
    check_argument(own.is_trainable(), "A push has a gradient of ", base::quoted(name),
                   ", which is not trainable.");
    return own;
  };
  for (const auto& [name, gradient] : gradients) {
    const Parameter& own = trainable(name);
    check_recordable({.name = name, .tensor = gradient});
    if (may_push(gradient.scalar_type(), own.dtype()) && own.sizes() == gradient.sizes()) continue;
    check_like(own, "gradient", name, gradient);
  }
  for (const RowGradient& each : rows) {
    const Parameter& own = trainable(each.name);
    check_argument(!state_.rule->needs_whole_variables(), "A push has a gradient of some rows of ",
                   base::quoted(each.name), ", and the rule ", state_.rule->name(),
                   " needs whole variables.");
    check_rows(each, own.sizes(), own.dtype());
  }
} catch (const Error& error) {
  throw PushRefusedError(error.code(), error.what());
}

/// A push that the log cannot take is refused before it is counted, so that its number is free.
void ParameterStore::check_fits(std::size_t record_bytes) const {
  if (record_bytes <= options_.log.max_record_bytes) return;
  throw PushRefusedError(ErrorCode::kInvalidArgument,
                         base::str_cat("The gradients of a push have ", record_bytes,
                                       " bytes, and the log of this server takes records of ",
                                       options_.log.max_record_bytes,
                                       " (UpdateLogOptions::max_record_bytes): use more servers, "
                                       "or divide variables (variable_partitioner)."));
}

void ParameterStore::check_assignable(std::span<const NamedState> variables) const {
  check_usable();
  check_created();
  check_state(!state_.is_ready,
              "The variables cannot be assigned any more: the chief has let the workers begin.");
  std::set<std::string_view> names;
  for (const auto& [name, state] : variables) {
    const Parameter& own = parameter(name);
    const std::size_t slots = own.is_trainable() ? state_.rule->slots().size() : 0;
    check_argument(names.insert(name).second, "Variable ", base::quoted(name),
                   " is assigned twice.");
    check_argument((state.slots.empty() || state.slots.size() == slots) && state.updates >= 0,
                   "Variable ", base::quoted(name), " is assigned with ", state.slots.size(),
                   " slots after ", state.updates, " updates: it has ", slots,
                   " slots, and updates count from 0.");
    check_like(own, "value", name, state.value);
    for (const at::Tensor& slot : state.slots) check_like(own, "slot", name, slot);
  }
}

void ParameterStore::check_offer(int worker, std::int64_t step, int index) const {
  const JobConfig config = job_from_state(state_.job);
  check_state(config.mode == UpdateMode::kSync,
              "A gradient is for a step of synchronous training, and the job's is not.");
  check_argument(step >= 0 && index >= 0, "Worker ", worker, " has gradient ", index, " of step ",
                 step, ": both count from 0.");
  const int quota = coordination::StepDecider(config.sync).quota();
  if (step <= state_.step + 1 && index < quota) return;
  throw Error(ErrorCode::kResourceExhausted, "Worker ", worker, " has gradient ", index,
              " of step ", step, ": a server keeps ", quota,
              " of each worker (counted from 0) for step ", state_.step,
              ", which is in progress, and for the next.");
}

}  // namespace brigade::ps
