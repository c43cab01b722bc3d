#include "brigade/comm/exchange/exchange_link.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "brigade/base/copy_bytes.h"
#include "brigade/comm/exchange/binomial_tree.h"
#include "brigade/comm/local/chunks.h"
#include "brigade/comm/local/ordered_reduction.h"

namespace brigade::comm {

namespace {

constexpr std::int64_t kChunkBytes = OrderedReduction::kChunkBytes;

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

/// How much of `tensor` is in the chunk that begins at byte `at`.
std::size_t piece_of(const at::Tensor& tensor, std::int64_t at) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return static_cast<std::size_t>(std::clamp<std::int64_t>(bytes - at, 0, kChunkBytes));
}

class ExchangeLink final : public ProcessLink {
 public:
  ExchangeLink(std::unique_ptr<ByteExchange> exchange, WireType wire)
      : rank_(exchange->rank()),
        world_size_(exchange->world_size()),
        reduction_(rank_, world_size_, wire),
        headers_(static_cast<std::size_t>(world_size_)),
        exchange_(std::move(exchange)) {}

  Transport transport() const override { return exchange_->transport(); }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

  std::span<const CallHeader> exchange(const CallHeader& mine) override {
    exchange_->begin_call(to_string(mine.call));
    const at::Tensor own = at::empty({sizeof mine}, at::kByte);
    base::copy_bytes(data_of(own), &mine, sizeof mine);
    const at::Tensor all = gather(own);
    base::copy_bytes(headers_.data(), data_of(all), all.nbytes());
    return headers_;
  }

  std::vector<std::string> exchange_texts(const std::string& mine) override {
    const at::Tensor own = at::zeros({kMaxText + 1}, at::kByte);
    mine.copy(reinterpret_cast<char*>(data_of(own)), kMaxText);
    const at::Tensor all = gather(own);
    std::vector<std::string> texts;
    for (int rank = 0; rank < world_size_; ++rank)
      texts.emplace_back(reinterpret_cast<const char*>(data_of(all[rank])));
    return texts;
  }

  void reduce(std::span<const FlatTensor> tensors, ReduceOp op) override {
    bytes_sent_ += reduction_.reduce(*exchange_, tensors, op);
  }

  void broadcast(std::span<const FlatTensor> tensors, int root) override {
    const auto sends =
        static_cast<std::int64_t>(binomial_children(rank_, root, world_size_).size());
    for (const Chunk& chunk : cut_into_chunks(tensors, kChunkBytes)) {
      const at::Tensor values = at::empty({chunk.numel}, at::TensorOptions(chunk.dtype));
      if (rank_ == root) copy_in(chunk, tensors, values);
      exchange_->broadcast(as_bytes(values), root);
      bytes_sent_ += sends * static_cast<std::int64_t>(values.nbytes());
      if (rank_ != root) copy_out(chunk, tensors, values);
    }
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                     std::span<const CallHeader> headers) override {
    const std::vector<at::Tensor> all = allocate_parts(mine, headers);
    const std::int64_t most = largest_nbytes(all);
    // Shorter parts are padded to the longest.
    for (std::int64_t at = 0; at < most; at += kChunkBytes) {
      const at::Tensor padded = at::empty({std::min(most - at, kChunkBytes)}, at::kByte);
      base::copy_bytes(data_of(padded), data_of(mine) + at, piece_of(mine, at));
      const at::Tensor parts = gather(padded);
      bytes_sent_ += padded.numel() * (world_size_ - 1);
      for (int rank = 0; rank < world_size_; ++rank)
        base::copy_bytes(data_of(all[rank]) + at, data_of(parts[rank]), piece_of(all[rank], at));
    }
    return all;
  }

  LinkBuffer make_buffer(std::int64_t bytes) override { return make_private_buffer(bytes); }

  void give_up(const Error& reason) noexcept override { exchange_->give_up(reason); }

 private:
  /// All ranks' `mine`, of equal sizes, by rank.
  at::Tensor gather(const at::Tensor& mine) {
    const at::Tensor all = at::empty({world_size_, mine.numel()}, mine.options());
    exchange_->start_all_gather(mine, all)->wait();
    return all;
  }

  const int rank_;
  const int world_size_;
  OrderedReduction reduction_;
  std::vector<CallHeader> headers_;
  std::int64_t bytes_sent_ = 0;
  const std::unique_ptr<ByteExchange> exchange_;
};

}  // namespace

std::unique_ptr<ProcessLink> make_exchange_link(std::unique_ptr<ByteExchange> exchange,
                                                WireType wire) {
  return std::make_unique<ExchangeLink>(std::move(exchange), wire);
}

}  // namespace brigade::comm
