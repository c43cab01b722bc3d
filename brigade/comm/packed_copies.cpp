#include "brigade/comm/packed_copies.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "brigade/device/stream.h"

namespace brigade::comm {

namespace {

at::Tensor joined(const std::vector<at::Tensor>& parts, std::int64_t size,
                  const at::TensorOptions& options) {
  if (parts.size() == 1) return parts.front();
  at::Tensor all = at::empty({size}, options);
  at::cat_out(all, parts);
  return all;
}

}  // namespace

void PackedCopies::add(const at::Tensor& tensor) {
  const at::TensorOptions options = at::TensorOptions(tensor.dtype()).device(tensor.device());
  auto pack = std::ranges::find_if(packs_, [&](const Pack& each) {
    return each.options.device() == options.device() && each.options.dtype() == options.dtype();
  });
  if (pack == packs_.end()) {
    packs_.push_back({.options = options, .parts = {}});
    pack = std::prev(packs_.end());
  }
  entries_.push_back({.original = tensor,
                      .pack = static_cast<std::size_t>(pack - packs_.begin()),
                      .offset = pack->size});
  pack->parts.push_back(tensor.contiguous().view(-1));
  pack->size += tensor.numel();
}

void PackedCopies::fetch() {
  std::set<c10::Device, bool (*)(c10::Device, c10::Device)> devices(
      [](c10::Device a, c10::Device b) { return a.str() < b.str(); });
  for (Pack& pack : packs_) {
    pack.on_host = at::empty({pack.size}, pack.options.device(at::kCPU).pinned_memory(true));
    pack.on_host.copy_(joined(pack.parts, pack.size, pack.options), /*non_blocking=*/true);
    pack.parts.clear();
    devices.insert(pack.options.device());
  }
  for (const c10::Device device : devices) device::synchronize(device::current_stream(device));
  for (Entry& entry : entries_)
    entry.flat = packs_[entry.pack].on_host.narrow(0, entry.offset, entry.original.numel());
}

void PackedCopies::send_back(std::size_t count) const {
  for (std::size_t number = 0; number < packs_.size(); ++number) {
    const Pack& pack = packs_[number];
    std::vector<at::Tensor> originals;
    std::vector<at::Tensor> values;
    std::int64_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (entries_[i].pack == number) size = entries_[i].offset + entries_[i].original.numel();
    }
    if (size == 0) continue;
    const at::Tensor there = pack.on_host.narrow(0, 0, size)
                                 .to(pack.options.device(),
                                     /*non_blocking=*/true);
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& entry = entries_[i];
      if (entry.pack != number) continue;
      originals.push_back(entry.original);
      values.push_back(
          there.narrow(0, entry.offset, entry.original.numel()).view(entry.original.sizes()));
    }
    at::_foreach_copy_(originals, values);
  }
}

}  // namespace brigade::comm
