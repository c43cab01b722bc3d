#include "brigade/comm/small_collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cstring>

namespace brigade::comm {

std::int64_t all_reduce_number(Communicator& communicator, std::int64_t mine, ReduceOp op) {
  const at::Tensor number = at::full({1}, mine, at::kLong);
  communicator.all_reduce({&number, 1}, op)->wait();
  return number.item<std::int64_t>();
}

std::vector<std::string> all_gather_texts(Communicator& communicator, const std::string& mine) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(mine.size())}, at::kByte);
  if (!mine.empty()) std::memcpy(bytes.mutable_data_ptr(), mine.data(), mine.size());
  std::vector<std::string> texts;
  for (const at::Tensor& each : communicator.all_gather(bytes)) {
    texts.emplace_back(static_cast<const char*>(each.const_data_ptr()),
                       static_cast<std::size_t>(each.numel()));
  }
  return texts;
}

}  // namespace brigade::comm
