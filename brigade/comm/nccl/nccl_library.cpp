// The NCCL that this program was built with. Its communicators do not block: calls return
// immediately, and their state is polled.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <span>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/nccl_communicator.h"

namespace brigade::comm {

namespace {

std::optional<ncclDataType_t> find_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    case at::kChar:
      return ncclInt8;
    case at::kByte:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

ncclDataType_t nccl_dtype(const at::Tensor& tensor) {
  if (const auto dtype = find_dtype(tensor.scalar_type())) return *dtype;
  throw Error(ErrorCode::kInvalidArgument, "NCCL cannot send tensors of dtype ",
              c10::toString(tensor.scalar_type()), ".");
}

ncclRedOp_t nccl_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMean:
      return ncclAvg;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  return ncclSum;
}

ncclResult_t start_on_card(const CollectiveCall& call, const at::Tensor& tensor,
                           ncclComm_t communicator, cudaStream_t stream) {
  void* const data = tensor.data_ptr();
  const auto count = static_cast<std::size_t>(tensor.numel());
  const ncclDataType_t dtype = nccl_dtype(tensor);
  switch (call.kind) {
    case Collective::kAllReduce:
      return ncclAllReduce(data, data, count, dtype, nccl_operation(call.op), communicator, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(data, data, count, dtype, call.root, communicator, stream);
    default:
      throw Error(ErrorCode::kUnimplemented, call.name(), " is not made by NCCL.");
  }
}

/// Throws kUnavailable with NCCL's text unless the call succeeded or is in progress.
void check_nccl(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw Error(ErrorCode::kUnavailable, "NCCL: ", call, " failed: ", ncclGetErrorString(result),
              ".");
}

/// Groups NCCL calls between ncclGroupStart and ncclGroupEnd. The destructor ends the group in any
/// case: an open group would hold back all later NCCL calls of this thread.
///
/// Thread-safety: one thread.
class NcclCallGroup {
 public:
  NcclCallGroup() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
  ~NcclCallGroup() {
    if (!has_ended_) ncclGroupEnd();
  }
  NcclCallGroup(const NcclCallGroup&) = delete;
  NcclCallGroup& operator=(const NcclCallGroup&) = delete;

  void add(ncclResult_t result) {
    if (first_failure_ == ncclSuccess && result != ncclInProgress) first_failure_ = result;
  }
  /// Throws kUnavailable, naming `calls`, if one of them failed.
  void end(std::string_view calls) {
    has_ended_ = true;
    const ncclResult_t result = ncclGroupEnd();
    check_nccl(first_failure_, calls);
    check_nccl(result, calls);
  }

 private:
  ncclResult_t first_failure_ = ncclSuccess;
  bool has_ended_ = false;
};

/// Whether NCCL supports the call's tensors: all on a GPU, dense and without overlap (in any order
/// of dimensions), of a dtype that it has.
bool nccl_takes(const CollectiveCall& call) {
  return !call.tensors.empty() && std::ranges::all_of(call.tensors, [](const at::Tensor& tensor) {
    return tensor.is_cuda() && tensor.is_non_overlapping_and_dense() &&
           find_dtype(tensor.scalar_type()).has_value();
  });
}

/// Enqueues a collective that NCCL takes on `stream`, of the GPU of `communicator`. Throws
/// kUnavailable with NCCL's text.
void enqueue(const CollectiveCall& call, ncclComm_t communicator, c10::cuda::CUDAStream stream) {
  const c10::cuda::CUDAGuard guard(stream.device());
  NcclCallGroup group;
  for (const at::Tensor& tensor : call.tensors)
    group.add(start_on_card(call, tensor, communicator, stream.stream()));
  group.end("a collective");
}

ncclUniqueId id_of(const std::string& text) {
  ncclUniqueId id;
  check_argument(text.size() == 2 * sizeof(id.internal), "An NCCL id has ", 2 * sizeof(id.internal),
                 " hexadecimal digits; this one has ", text.size(),
                 " characters: the processes have different versions of NCCL.");
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
  std::deque<c10::Event> ends = {};  ///< of those that may not have ended
  std::uint64_t finished = 0;        ///< those that have ended
};

class CardClique final : public NcclClique {
 public:
  explicit CardClique(const NcclCliqueOptions& options) {
    for (const c10::Device& card : options.cards) ranks_.emplace_back().card = card;
    try {
      join(options);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~CardClique() override { is_closing_ ? destroy() : abort(); }

  int local_size() const override { return static_cast<int>(ranks_.size()); }

  bool takes(const CollectiveCall& call) const override { return nccl_takes(call); }

  void start(int local_rank, const CollectiveCall& call) override {
    Rank& rank = at(local_rank);
    rank.stream = c10::cuda::getCurrentCUDAStream(rank.card.index());
    enqueue(call, rank.communicator, *rank.stream);
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
    look_at_card(rank);
    return {rank.ends.empty() ? NcclStatus::State::kDone : NcclStatus::State::kQueued};
  }

  std::uint64_t finished(int local_rank) override {
    Rank& rank = at(local_rank);
    if (!rank.stream) look_at_card(rank);  // otherwise NCCL may still be queueing
    return rank.finished;
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

  /// Call it when NCCL has queued everything; the stream may not have run it yet.
  static void look_at_card(Rank& rank) {
    if (rank.stream) {
      rank.ends.emplace_back(c10::kCUDA);
      rank.ends.back().record(*rank.stream);
      rank.stream.reset();
    }
    while (!rank.ends.empty() && rank.ends.front().query()) {
      rank.ends.pop_front();
      ++rank.finished;
    }
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

  std::deque<Rank> ranks_;  // which never copies its elements
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
    return base::to_hex(std::as_bytes(std::span(id.internal)));
  }
  std::unique_ptr<NcclClique> start_joining(const NcclCliqueOptions& options) const override {
    return std::make_unique<CardClique>(options);
  }
};

}  // namespace

std::unique_ptr<NcclLibrary> find_nccl_library() {
  return std::make_unique<BuiltInNccl>();
}

bool nccl_is_built_in() {
  return true;
}

}  // namespace brigade::comm
