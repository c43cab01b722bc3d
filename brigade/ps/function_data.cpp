#include "brigade/ps/function_data.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"
#include "brigade/ps/service_messages.h"
#include "brigade/ps/update_record.h"

namespace brigade::ps {
namespace {

// What a message has beside values: names, and a description of each tensor.
constexpr std::uint64_t kLongestEnvelope = std::uint64_t{64} << 10;

std::uint64_t text_bytes(const io::StateTree& values, std::string_view what) {
  const io::StateJson text = io::to_json(values);
  check_argument(text.arrays.empty(),
                 base::str_cat("The values of ", what, " contain an array: pass it as a tensor."));
  check_argument(text.json.size() <= kLongestText - kLongestEnvelope,
                 base::str_cat("The values of ", what, " have ", text.json.size(),
                               " bytes as text, and up to ", kLongestText - kLongestEnvelope,
                               " are allowed: pass what is large as tensors."));
  return text.json.size() + kLongestEnvelope;
}

}  // namespace

const at::Tensor& FunctionData::tensor(std::string_view name) const {
  std::vector<std::string> names;
  for (const checkpoint::NamedTensor& each : tensors) {
    if (each.name == name) return each.tensor;
    names.push_back(each.name);
  }
  throw Error(ErrorCode::kNotFound, base::str_cat("There is no tensor ", base::quoted(name),
                                                  " among [", base::listed(names, ", "), "]."));
}

FunctionData sendable_copy(const FunctionData& data, std::uint64_t max_bytes,
                           std::string_view what) {
  const at::NoGradGuard no_grad;
  std::uint64_t bytes = text_bytes(data.values, what);
  for (const checkpoint::NamedTensor& each : data.tensors) {
    check_argument(each.tensor.defined() && each.tensor.layout() == at::kStrided,
                   base::str_cat("Tensor ", base::quoted(each.name), " of ", what,
                                 " is undefined or not dense: pass dense tensors."));
    bytes += each.tensor.nbytes();
  }
  check_argument(bytes <= max_bytes, base::str_cat("The tensors and values of ", what, " have ",
                                                   bytes, " bytes, and a message has up to ",
                                                   max_bytes, " (max_message_bytes)."));
  FunctionData copy{.values = data.values, .tensors = {}};
  for (const checkpoint::NamedTensor& each : data.tensors) {
    copy.tensors.push_back({each.name, each.tensor.detach()
                                           .to(at::TensorOptions(at::kCPU), /*non_blocking=*/false,
                                               /*copy=*/true)
                                           .contiguous()});
    check_recordable(copy.tensors.back());
  }
  return copy;
}

}  // namespace brigade::ps
