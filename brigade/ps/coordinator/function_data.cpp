#include "brigade/ps/coordinator/function_data.h"

#include <ATen/core/grad_mode.h>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {
const at::Tensor& FunctionData::tensor(std::string_view name) const {
  std::vector<std::string> names;
  for (const checkpoint::NamedTensor& each : tensors) {
    if (each.name == name) return each.tensor;
    names.push_back(each.name);
  }
  throw Error(ErrorCode::kNotFound, "There is no tensor ", base::quoted(name), " among [",
              base::listed(names, ", "), "].");
}

void add_input(FunctionData& arguments, const std::string& name, const FunctionData& input) {
  check_argument(!name.empty() && !arguments.values.has(name),
                 "An input of a function has the name ", base::quoted(name),
                 ", which is empty, or that of another argument.");
  arguments.values[name] = input.values;
  for (const checkpoint::NamedTensor& each : input.tensors)
    arguments.tensors.push_back({base::str_cat(name, "/", each.name), each.tensor});
}

FunctionData sendable_copy(const FunctionData& data, std::string_view what) {
  const at::NoGradGuard no_grad;
  FunctionData copy{.values = data.values, .tensors = {}};
  for (const checkpoint::NamedTensor& each : data.tensors) {
    check_argument(each.tensor.defined() && each.tensor.layout() == at::kStrided, "Tensor ",
                   base::quoted(each.name), " of ", what,
                   " is undefined or not dense: pass dense tensors.");
    copy.tensors.push_back({each.name, each.tensor.detach()
                                           .to(at::TensorOptions(at::kCPU), /*non_blocking=*/false,
                                               /*copy=*/true)
                                           .contiguous()});
    check_recordable(copy.tensors.back());
  }
  return copy;
}

}  // namespace brigade::ps
