// NCCL between processes. Its communicators do not block: calls return immediately, and their state
// is polled.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/nccl/nccl_call_group.h"
#include "brigade/comm/nccl/nccl_clique.h"
#include "brigade/comm/nccl/nccl_types.h"

namespace brigade::comm {

namespace {

std::string hexadecimal(const ncclUniqueId& id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : id.internal) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

ncclUniqueId id_of(const std::string& text) {
  ncclUniqueId id;
  check_argument(text.size() == 2 * sizeof(id.internal),
                 base::str_cat("An NCCL id has ", 2 * sizeof(id.internal),
                               " hexadecimal digits; this one has ", text.size(),
                               " characters: the processes have different versions of NCCL."));
  for (std::size_t i = 0; i < sizeof(id.internal); ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// One of this process's ranks.
struct Rank {
  c10::Device card = c10::Device(c10::kCUDA, 0);
  ncclComm_t communicator = nullptr;
  /// The stream of the collective that was started last, until its end is recorded there.
  std::optional<c10::cuda::CUDAStream> stream = std::nullopt;
  std::optional<c10::Event> end = std::nullopt;
};

class CardClique final : public NcclClique {
 public:
  explicit CardClique(const NcclCliqueOptions& options) {
    for (const c10::Device& card : options.cards) ranks_.push_back({.card = card});
    try {
      join(options);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~CardClique() override { is_closing_ ? destroy() : abort(); }

  int local_size() const override { return static_cast<int>(ranks_.size()); }

  bool takes(std::span<const at::Tensor> tensors) const override {
    return are_dense_on_cuda(tensors) && std::ranges::all_of(tensors, has_nccl_dtype);
  }

  void start_all_reduce(int local_rank, std::span<const at::Tensor> tensors, ReduceOp op) override {
    start(at(local_rank), tensors, [&](const at::Tensor& tensor, Rank& rank) {
      return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor),
                           nccl_operation(op), rank.communicator, rank.stream->stream());
    });
  }

  void start_broadcast(int local_rank, std::span<const at::Tensor> tensors, int root) override {
    start(at(local_rank), tensors, [&](const at::Tensor& tensor, Rank& rank) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor), root,
                           rank.communicator, rank.stream->stream());
    });
  }

  void start_closing() override {
    is_closing_ = true;
    NcclCallGroup group;
    for (const Rank& rank : ranks_) group.add(ncclCommFinalize(rank.communicator));
    group.end("ncclCommFinalize");
  }

  NcclStatus status(int local_rank) override {
    Rank& rank = at(local_rank);
    if (rank.communicator == nullptr) return {NcclStatus::State::kFailed, "it was aborted"};
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(rank.communicator, &state), "ncclCommGetAsyncError");
    if (state == ncclInProgress) return {NcclStatus::State::kUnderWay};
    if (state != ncclSuccess) {
      return {NcclStatus::State::kFailed,
              base::str_cat(ncclGetErrorString(state), ": ", ncclGetLastError(rank.communicator))};
    }
    return {has_ended_on_card(rank) ? NcclStatus::State::kDone : NcclStatus::State::kUnderWay};
  }

  void abort() noexcept override {
    // In one group: all communicators get the request to stop before NCCL waits for any of them.
    ncclGroupStart();
    for (Rank& rank : ranks_) {
      if (rank.communicator != nullptr) ncclCommAbort(rank.communicator);
      rank.communicator = nullptr;
    }
    ncclGroupEnd();
  }

 private:
  Rank& at(int local_rank) { return ranks_[static_cast<std::size_t>(local_rank)]; }

  void join(const NcclCliqueOptions& options) {
    const ncclUniqueId id = id_of(options.id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    NcclCallGroup group;
    int number = options.first_rank;
    for (Rank& rank : ranks_) {
      const c10::cuda::CUDAGuard guard(rank.card);
      group.add(
          ncclCommInitRankConfig(&rank.communicator, options.world_size, id, number++, &config));
    }
    group.end("ncclCommInitRankConfig");
  }

  template <class Call>
  void start(Rank& rank, std::span<const at::Tensor> tensors, const Call& call) {
    const c10::cuda::CUDAGuard guard(rank.card);
    rank.stream = c10::cuda::getCurrentCUDAStream(rank.card.index());
    NcclCallGroup group;
    for (const at::Tensor& tensor : tensors) group.add(call(tensor, rank));
    group.end("a collective");
  }

  /// NCCL has enqueued everything on the stream, which may not have run it yet.
  static bool has_ended_on_card(Rank& rank) {
    if (rank.stream) {
      rank.end.emplace(c10::kCUDA);
      rank.end->record(*rank.stream);
      rank.stream.reset();
    }
    return !rank.end || rank.end->query();
  }

  /// The communicators were finalized, so this does not wait.
  void destroy() noexcept {
    for (Rank& rank : ranks_) {
      if (rank.communicator == nullptr) continue;
      ncclResult_t state = ncclInProgress;
      ncclCommGetAsyncError(rank.communicator, &state);
      state == ncclSuccess ? ncclCommDestroy(rank.communicator) : ncclCommAbort(rank.communicator);
    }
  }

  std::vector<Rank> ranks_;
  bool is_closing_ = false;
};

class BuiltInNccl final : public NcclLibrary {
 public:
  std::string card_id(c10::Device card) const override {
    const cudaDeviceProp& card_properties = *at::cuda::getDeviceProperties(card.index());
    char bus_id[32];
    std::snprintf(bus_id, sizeof(bus_id), "%08x:%02x:%02x.0", card_properties.pciDomainID,
                  card_properties.pciBusID, card_properties.pciDeviceID);
    return bus_id;
  }
  std::string make_id() const override {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return hexadecimal(id);
  }
  std::unique_ptr<NcclClique> start_joining(const NcclCliqueOptions& options) const override {
    return std::make_unique<CardClique>(options);
  }
};

}  // namespace

std::unique_ptr<NcclLibrary> find_nccl_library() {
  return std::make_unique<BuiltInNccl>();
}

}  // namespace brigade::comm
