#include "brigade/comm/process_link.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <new>

#include "brigade/base/copy_bytes.h"
#include "brigade/comm/local/chunks.h"

namespace brigade::comm {

namespace {

/// The tensors that an all-gather fills: one per rank, with the shape in its header.
std::vector<at::Tensor> allocate_parts(const at::Tensor& mine,
                                       std::span<const CallHeader> headers) {
  std::vector<at::Tensor> parts;
  for (const CallHeader& header : headers) {
    const auto dimensions = static_cast<std::size_t>(header.dimensions);
    parts.push_back(at::empty({header.sizes.data(), dimensions}, mine.options()));
  }
  return parts;
}

/// Every collective is complete when it returns.
class SingleLink final : public ProcessLink {
 public:
  explicit SingleLink(Transport transport)
      : ProcessLink(0, 1, std::numeric_limits<std::int64_t>::max()), transport_(transport) {}

  Transport transport() const override { return transport_; }
  void give_up(const Error&) noexcept override {}

 private:
  void begin_call(std::string_view) override {}
  GatheredBytes gather(std::span<const std::byte> mine, std::int64_t) override {
    return {.first = mine.data()};
  }
  void reduce(std::span<const FlatTensor>, ReduceOp, const ReductionBlocks&) override {}
  void broadcast(std::span<const FlatTensor>, int) override {}

  const Transport transport_;
};

}  // namespace

ProcessLink::ProcessLink(int rank, int world_size, std::int64_t chunk_bytes)
    : rank_(rank),
      world_size_(world_size),
      chunk_bytes_(chunk_bytes),
      headers_(static_cast<std::size_t>(world_size)) {}

std::span<const CallHeader> ProcessLink::exchange(const CallHeader& mine) {
  begin_call(mine.name());
  const GatheredBytes all = gather(std::as_bytes(std::span(&mine, 1)), sizeof mine);
  for (int rank = 0; rank < world_size_; ++rank)
    base::copy_bytes(&headers_[rank], all.of(rank), sizeof mine);
  return headers_;
}

std::vector<std::string> ProcessLink::exchange_texts(const std::string& mine) {
  std::array<char, kMaxText + 1> text = {};
  mine.copy(text.data(), kMaxText);
  const GatheredBytes all = gather(std::as_bytes(std::span(text)), text.size());
  std::vector<std::string> texts;
  for (int rank = 0; rank < world_size_; ++rank)
    texts.emplace_back(reinterpret_cast<const char*>(all.of(rank)));
  return texts;
}

std::vector<at::Tensor> ProcessLink::run(const FlatCall& call) {
  switch (call.kind) {
    case Collective::kAllReduce:
      reduce(call.tensors, call.op, *call.blocks);
      return {};
    case Collective::kBroadcast:
      broadcast(call.tensors, call.root);
      return {};
    case Collective::kAllGather:
      return all_gather(call.tensors.front().values, call.headers);
    case Collective::kBarrier:
    case Collective::kMakeBuffer:  // the exchange of headers was all
      return {};
    default:
      throw Error(ErrorCode::kUnimplemented, "The transport '", transport(),
                  "' cannot make this collective.");
  }
}

std::vector<at::Tensor> ProcessLink::all_gather(const at::Tensor& mine,
                                                std::span<const CallHeader> headers) {
  const std::vector<at::Tensor> all = allocate_parts(mine, headers);
  std::int64_t longest = 0;
  for (const at::Tensor& part : all)
    longest = std::max(longest, static_cast<std::int64_t>(part.nbytes()));
  for (std::int64_t begin = 0; begin < longest; begin += chunk_bytes_) {
    // Of `tensor`, what is in this chunk.
    const auto piece_of = [&](const at::Tensor& tensor) {
      const std::int64_t rest = static_cast<std::int64_t>(tensor.nbytes()) - begin;
      const auto size = std::clamp<std::int64_t>(rest, 0, chunk_bytes_);
      return std::span(data_of(tensor) + (size > 0 ? begin : 0), static_cast<std::size_t>(size));
    };
    const GatheredBytes gathered = gather(piece_of(mine), std::min(longest - begin, chunk_bytes_));
    count_sent(gathered.sent);
    for (int rank = 0; rank < world_size_; ++rank) {
      const auto piece = piece_of(all[rank]);
      base::copy_bytes(piece.data(), gathered.of(rank), piece.size());
    }
  }
  return all;
}

LinkBuffer ProcessLink::make_buffer(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kAlignment - 1) & ~(kAlignment - 1);
  std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, size), std::free);
  if (!memory) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory.get());
  std::fill_n(begin, size, std::byte{0});
  return {.memory = std::move(memory), .own = begin};
}

std::unique_ptr<ProcessLink> make_single_link(Transport transport) {
  return std::make_unique<SingleLink>(transport);
}

}  // namespace brigade::comm
