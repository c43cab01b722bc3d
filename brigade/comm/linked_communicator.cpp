#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>

#include "brigade/base/strings.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/packed_copies.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

namespace {

/// A buffer that `make_buffer` returned. Its tensors own the memory, which may be freed already.
struct KnownBuffer {
  std::uint64_t number = 0;
  std::weak_ptr<void> memory;
  std::byte* own = nullptr;
  std::int64_t bytes = 0;
  std::vector<std::byte*> parts;
};

/// The buffer in which a tensor begins, and its offset there in bytes.
struct BufferLocation {
  const KnownBuffer* buffer = nullptr;
  std::int64_t offset = 0;
};

/// Tensors in the flat form in which links take them.
struct FlatForm {
  std::vector<FlatTensor> tensors;
  std::vector<BufferLocation> locations;  // of the tensors of every set, one set after another
  /// Tensors of the host that had to be copied, and are copied back after the call.
  struct Copy {
    at::Tensor original;
    at::Tensor flat;
  };
  std::vector<Copy> copies;
  /// Those on GPUs: first the ones of the first set.
  PackedCopies on_gpus;
  std::size_t on_gpus_in_first_set = 0;

  void copy_back() const {
    on_gpus.send_back(on_gpus_in_first_set);
    for (const Copy& copy : copies) copy.original.copy_(copy.flat.view(copy.original.sizes()));
  }
};

/// The first line in which the two differ; beyond the end of either it is empty.
struct Difference {
  std::size_t tensor = 0;
  std::string mine;
  std::string theirs;
};

std::optional<Difference> first_difference(const std::string& mine, const std::string& theirs) {
  const std::vector<std::string> a = base::split(mine, '\n');
  const std::vector<std::string> b = base::split(theirs, '\n');
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i] && !a[i].empty() && !b[i].empty()) return Difference{i, a[i], b[i]};
  }
  return std::nullopt;
}

/// The stamps of all ranks, by rank.
std::vector<CallStamp> stamps_of(std::span<const CallHeader> headers) {
  std::vector<CallStamp> stamps;
  for (const CallHeader& header : headers) stamps.push_back(header.stamp);
  return stamps;
}

/// What the ranks let each other know, by rank.
std::vector<PiggybackStamps> piggybacks_of(std::span<const CallHeader> headers) {
  std::vector<PiggybackStamps> stamps;
  for (const CallHeader& header : headers) stamps.push_back(header.piggyback);
  return stamps;
}

/// The first rank whose step, or the purpose of whose call, differs from that of rank `mine`.
std::optional<int> first_in_another_step(std::span<const CallHeader> headers, int mine) {
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (!headers[mine].stamp.matches(headers[rank].stamp)) return static_cast<int>(rank);
  }
  return std::nullopt;
}

/// The error that names the steps of both ranks.
StepMismatch step_mismatch(std::span<const CallHeader> headers, int mine, int other) {
  const auto describe_rank = [&](int rank) {
    return base::str_cat("rank ", rank, " is ", describe(headers[rank].stamp), ", in ",
                         headers[rank].name());
  };
  return {{.rank = mine, .stamp = headers[mine].stamp},
          {.rank = other, .stamp = headers[other].stamp},
          base::str_cat("The workers are not in the same step: ", describe_rank(mine), ", while ",
                        describe_rank(other),
                        ". Every worker must make the same steps, and the same calls in them; "
                        "resume from a checkpoint.")};
}

/// Whether both calls contribute the same parts of the same tensors.
bool have_same_tensors(const CallHeader& a, const CallHeader& b) {
  return a.blocks_digest == b.blocks_digest && a.tensors == b.tensors && a.digest == b.digest;
}

/// The first rank whose header does not match that of rank `mine`.
std::optional<int> first_mismatch(std::span<const CallHeader> headers, int mine) {
  const CallHeader& own = headers[mine];
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const CallHeader& other = headers[rank];
    if (!own.same_call(other) || !have_same_tensors(own, other)) return static_cast<int>(rank);
  }
  return std::nullopt;
}

/// The message about this mismatch; `shapes[rank]` is what `shapes_of` returned on that rank.
std::string describe_mismatch(std::span<const CallHeader> headers, int mine, int other,
                              std::span<const std::string> shapes) {
  const CallHeader& own = headers[mine];
  const CallHeader& theirs = headers[other];
  if (!own.same_call(theirs)) {
    return base::str_cat("rank ", mine, " is in ", own.name(), " (root ", own.root, ") while rank ",
                         other, " is in ", theirs.name(), " (root ", theirs.root,
                         "): every rank must make the same collective calls, in the same order.");
  }
  if (own.blocks_digest != theirs.blocks_digest) {
    return base::str_cat(own.name(), ": rank ", mine, " and rank ", other,
                         " add other numbers of leaves per rank; every rank must pass the same "
                         "ReductionBlocks.");
  }
  if (own.tensors != theirs.tensors) {
    return base::str_cat(own.name(), ": rank ", other, " passed ", theirs.tensors,
                         " tensors and rank ", mine, " ", own.tensors,
                         "; every rank must pass the same number.");
  }
  const auto difference = first_difference(shapes[mine], shapes[other]);
  if (!difference) {
    return base::str_cat(own.name(), ": one of the ", own.tensors,
                         " tensors has another shape or dtype on rank ", other, " than on rank ",
                         mine, "; they must be the same.");
  }
  return base::str_cat(own.name(), ": tensor ", difference->tensor, " is ", difference->theirs,
                       " on rank ", other, " and ", difference->mine, " on rank ", mine,
                       traits_of(own.kind).gathers ? "; dtypes must be the same."
                                                   : "; shapes and dtypes must be the same.");
}

class LinkedCommunicator final : public ProcessCommunicator {
 public:
  LinkedCommunicator(std::unique_ptr<ProcessLink> link,
                     std::shared_ptr<const cluster::Membership> membership, WireDtype wire)
      : membership_(std::move(membership)),
        link_(std::move(link)),
        rank_(link_->rank()),
        world_size_(link_->world_size()),
        wire_(wire),
        name_(base::str_cat(membership_->self())),
        one_leaf_each_(ReductionBlocks::one_each(world_size_)) {}
  /// Other processes may still be in a step that failed here, or wait for this process, which
  /// leaves because another communicator has shown it a loss.
  ~LinkedCommunicator() override {
    if (failure_) return;
    if (const auto lost = membership_->lost()) {
      link_->give_up(cluster::lost_error(*lost, "the communicator"));
    } else if (progress_.stamp().failed_run != CallStamp::kNone) {
      link_->give_up(Error(ErrorCode::kAborted, "a step failed in it: ", progress_.reason()));
    }
  }
  LinkedCommunicator(const LinkedCommunicator&) = delete;
  LinkedCommunicator& operator=(const LinkedCommunicator&) = delete;

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Transport transport() const override { return link_->transport(); }
  Traffic traffic() const override {
    return {.collectives = collectives_, .bytes_sent = link_->bytes_sent()};
  }
  StepProgress& progress() override { return progress_; }
  std::shared_ptr<PiggybackNumber> piggyback(PiggybackUse use, PiggybackNumber::Own own) override {
    return piggyback_.carry(use, std::move(own));
  }

  at::Tensor make_buffer(std::int64_t numel, at::ScalarType dtype) override {
    at::Tensor made;
    attempt([&] {
      check_argument(numel >= 0, "make_buffer: ", numel, " elements; at least 0 are needed.");
      // A view that is never read: only its shape is compared.
      std::byte nothing[16] = {};
      const at::Tensor shape = at::from_blob(nothing, at::IntArrayRef({numel}),
                                             at::IntArrayRef({0}), at::TensorOptions(dtype));
      const CollectiveCall call{.kind = Collective::kMakeBuffer, .tensors = {&shape, 1}};
      exchange(header_of(call), call.tensors);
      const auto bytes = numel * static_cast<std::int64_t>(shape.element_size());
      const LinkBuffer buffer = link_->make_buffer(std::max<std::int64_t>(bytes, 1));
      remember_buffer(buffer, bytes);
      made = at::from_blob(
          buffer.own, {numel}, [memory = buffer.memory](void*) {}, at::TensorOptions(dtype));
    });
    return made;
  }

  void all_reduce_subtrees(std::span<const at::Tensor> sets,
                           const ReductionBlocks& blocks) override {
    const CollectiveCall call{
        .kind = Collective::kAllReduce, .op = ReduceOp::kSum, .tensors = sets};
    attempt([&] {
      check_sets(call, blocks);
      make(call, blocks);
    });
  }

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    std::vector<at::Tensor> gathered;
    attempt([&] { gathered = make(call, one_leaf_each_); });
    return gathered;
  }

  /// A reduction's tensors are blocks.most_parts() sets.
  std::vector<at::Tensor> make(const CollectiveCall& call, const ReductionBlocks& blocks) {
    check_layouts(call);
    if (const auto problem = call.find_problem(world_size_))
      throw Error(ErrorCode::kInvalidArgument, *problem);
    const std::size_t sets = call.traits().reduces ? blocks.most_parts() : 1;
    FlatForm flat =
        call.traits().gathers ? in_own_shape(call.tensors) : flatten(call.tensors, sets, blocks);
    const auto headers = agree(call, blocks, flat);
    if (wire_ != WireDtype::kFull && call.traits().reduces &&
        (call.op == ReduceOp::kSum || call.op == ReduceOp::kMean))
      narrow_buffers(flat);
    std::vector<at::Tensor> gathered = link_->run({.kind = call.kind,
                                                   .op = call.op,
                                                   .root = call.root,
                                                   .tensors = flat.tensors,
                                                   .blocks = &blocks,
                                                   .headers = headers});
    const bool is_source = call.traits().has_root && call.root == rank_;
    if (!is_source) flat.copy_back();
    for (at::Tensor& part : gathered) part = part.to(call.tensors.front().device());
    return gathered;
  }

  /// Runs one collective. The first failure releases the peers, and every later call throws it. A
  /// step that all ranks abandon is no such failure: the communicator stays usable.
  template <class Body>
  void attempt(const Body& body) {
    const at::NoGradGuard no_grad;
    if (failure_) {
      throw Error(failure_->code(),
                  base::str_cat(failure_->what(),
                                " (This error is of an earlier call; after an error make a new "
                                "communicator with the next membership.)"));
    }
    progress_.throw_if_abandoned();
    try {
      body();
      ++collectives_;
    } catch (const StepAbandoned&) {
      throw;
    } catch (const Error& error) {
      fail(error);
      throw;
    } catch (const std::exception& error) {
      fail(Error(ErrorCode::kInternal, std::string(base::without_stack_trace(error.what()))));
      throw;
    }
  }
  void fail(const Error& error) {
    failure_ = error;
    link_->give_up(error);
  }

  void check_sets(const CollectiveCall& call, const ReductionBlocks& blocks) const {
    check_argument(blocks.num_ranks() == world_size_, call.name(),
                   ": there are blocks of leaves for ", blocks.num_ranks(),
                   " ranks, and there are ", world_size_, ".");
    const std::size_t sets = blocks.most_parts();
    const std::size_t tensors = call.tensors.size() / sets;
    check_argument(tensors * sets == call.tensors.size(), call.name(), ": ", call.tensors.size(),
                   " tensors are no ", sets, " sets of the same tensors.");
    check_layouts(call);
    for (std::size_t i = tensors; i < call.tensors.size(); ++i) {
      const at::Tensor& first = call.tensors[i % tensors];
      if (call.tensors[i].sizes() == first.sizes() &&
          call.tensors[i].scalar_type() == first.scalar_type())
        continue;
      throw Error(ErrorCode::kInvalidArgument, call.name(), ": set ", i / tensors, " has ",
                  shape_of(call.tensors[i]), " where the first set has ", shape_of(first),
                  "; shapes and dtypes must be the same.");
    }
  }

  static void check_layouts(const CollectiveCall& call) {
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      check_argument(call.tensors[i].defined(), call.name(), ": tensor ", i,
                     " is undefined; pass zeros instead.");
      check_argument(call.tensors[i].layout() == at::kStrided, call.name(), ": tensor ", i,
                     " is sparse; make it dense.");
    }
  }

  std::span<const CallHeader> exchange(CallHeader mine, std::span<const at::Tensor> tensors) {
    for (;;) {
      mine.stamp = progress_.stamp();
      mine.piggyback = piggyback_.stamps();
      const auto headers = link_->exchange(mine);
      if (first_in_another_step(headers, rank_)) {
        resolve_step_difference(headers);
        continue;
      }
      progress_.forget_failures_before(mine.stamp.run);
      if (const auto other = first_mismatch(headers, rank_)) refuse(headers, *other, tensors);
      piggyback_.receive(piggybacks_of(headers));
      return headers;
    }
  }

  /// Called on all ranks, since each sees some other rank that differs. Returns if this rank must
  /// exchange headers again.
  void resolve_step_difference(std::span<const CallHeader> headers) {
    using Verdict = StepComparison::Verdict;
    const std::vector<CallStamp> stamps = stamps_of(headers);
    const StepComparison steps = compare_steps(stamps);
    switch (steps.verdict) {
      case Verdict::kRepeat:
        progress_.forget_failures_before(steps.lowest);
        return;
      case Verdict::kAbandon:
        abandon(stamps, steps.lowest);
        return;
      case Verdict::kTogether:
      case Verdict::kDiverged:
        throw step_mismatch(headers, rank_, *first_in_another_step(headers, rank_));
    }
  }

  /// The ranks that failed in the run send the others their reasons.
  void abandon(std::span<const CallStamp> stamps, std::uint64_t run) {
    const bool failed_locally = stamps[rank_].failed_run == run;
    const auto texts = link_->exchange_texts(
        failed_locally ? base::str_cat(name_, " failed in it: ", progress_.reason()) : "");
    if (failed_locally) return progress_.forget_failures_before(run + 1);
    std::vector<int> failed;
    std::vector<std::string> reasons;
    for (int rank = 0; rank < world_size_; ++rank) {
      if (stamps[rank].run == run) continue;
      failed.push_back(rank);
      reasons.push_back(texts[rank]);
    }
    const std::uint64_t step = progress_.step();
    const StepAbandoned error(
        step, std::move(failed),
        base::str_cat("All workers abandon step ", step, ": ", base::join(reasons, "; ")));
    progress_.abandon(error);
    throw error;
  }

  /// Every rank sees some other rank that differs, so all call this and exchange their shapes.
  [[noreturn]] void refuse(std::span<const CallHeader> seen, int other,
                           std::span<const at::Tensor> tensors) {
    const std::vector<CallHeader> headers(seen.begin(), seen.end());
    const auto shapes = link_->exchange_texts(shapes_of(tensors, ProcessLink::kMaxText));
    const bool same_call = headers[rank_].same_call(headers[other]);
    throw Error(same_call ? ErrorCode::kInvalidArgument : ErrorCode::kFailedPrecondition,
                describe_mismatch(headers, rank_, other, shapes));
  }

  /// Exchanges headers, and fills `parts` if all ranks' tensors are at the same offsets of shared
  /// buffers.
  std::span<const CallHeader> agree(const CollectiveCall& call, const ReductionBlocks& blocks,
                                    FlatForm& flat) {
    CallHeader mine = header_of(call);
    if (call.traits().reduces) mine.blocks_digest = blocks.digest();
    mine.buffer_digest = digest_of(flat.locations);
    const auto headers = exchange(mine, call.tensors);
    const bool shared = mine.buffer_digest != 0 &&
                        std::all_of(headers.begin(), headers.end(), [&](const auto& header) {
                          return header.buffer_digest == mine.buffer_digest;
                        });
    for (std::size_t i = 0; shared && i < flat.tensors.size(); ++i) {
      for (int rank = 0; rank < world_size_; ++rank) {
        flat.tensors[i].shared.push_back(shared_tensor(flat, i, 0, rank));
        const std::size_t parts = call.traits().reduces ? blocks.num_parts(rank) : 0;
        for (std::size_t part = 0; part < parts; ++part)
          flat.tensors[i].shared_parts.push_back(shared_tensor(flat, i, part, rank));
      }
    }
    return headers;
  }

  /// Rank `rank`'s memory where this rank has set `set` of a tensor.
  static at::Tensor shared_tensor(const FlatForm& flat, std::size_t tensor, std::size_t set,
                                  int rank) {
    const BufferLocation& location = flat.locations[set * flat.tensors.size() + tensor];
    const at::Tensor& values = flat.tensors[tensor].values;
    return at::from_blob(location.buffer->parts[static_cast<std::size_t>(rank)] + location.offset,
                         {values.numel()}, values.options());
  }

  static std::uint64_t digest_of(std::span<const BufferLocation> locations) {
    std::uint64_t digest = 1;
    for (const BufferLocation& location : locations) {
      if (!location.buffer || location.buffer->parts.empty()) return 0;
      digest =
          mix(mix(digest, location.buffer->number), static_cast<std::uint64_t>(location.offset)) |
          1U;
    }
    return digest;
  }

  static FlatForm in_own_shape(std::span<const at::Tensor> tensors) {
    FlatForm form;
    for (const at::Tensor& tensor : tensors) {
      form.tensors.push_back({.values = tensor.detach().cpu().contiguous()});
      form.locations.emplace_back();
    }
    return form;
  }

  /// `tensors` are this many sets, of which this rank contributes those of its parts.
  FlatForm flatten(std::span<const at::Tensor> tensors, std::size_t sets,
                   const ReductionBlocks& blocks) {
    FlatForm form;
    const std::size_t in_set = tensors.size() / sets;
    const auto is_read = [&](std::size_t set) { return set == 0 || set < blocks.num_parts(rank_); };
    for (std::size_t set = 0; set < sets && is_read(set); ++set) {
      for (const at::Tensor& given : tensors.subspan(set * in_set, in_set)) {
        if (given.numel() > 0 && !given.is_cpu()) form.on_gpus.add(given.detach());
      }
      if (set == 0) form.on_gpus_in_first_set = form.on_gpus.size();
    }
    form.on_gpus.fetch();
    std::size_t next_on_gpu = 0;
    for (std::size_t set = 0; set < sets; ++set) {
      std::size_t next = 0;  // among the tensors that are not empty
      for (const at::Tensor& given : tensors.subspan(set * in_set, in_set)) {
        if (given.numel() == 0) continue;
        const at::Tensor tensor = given.detach();
        const bool is_flat = tensor.is_cpu() && tensor.is_contiguous();
        form.locations.push_back(is_flat ? location_of(tensor.view(-1)) : BufferLocation{});
        if (!is_read(set)) continue;
        at::Tensor flat;
        if (tensor.is_cpu()) {
          flat = tensor.contiguous().view(-1);
        } else {
          flat = form.on_gpus.flat(next_on_gpu++);
        }
        if (set > 0) {
          form.tensors[next++].more_parts.push_back(flat);
          continue;
        }
        if (tensor.is_cpu() && !is_flat) form.copies.push_back({tensor, flat});
        form.tensors.push_back({.values = flat});
      }
    }
    return form;
  }

  BufferLocation location_of(const at::Tensor& flat) {
    const auto* begin = static_cast<const std::byte*>(flat.const_data_ptr());
    for (const KnownBuffer& buffer : buffers_) {
      if (begin < buffer.own || begin >= buffer.own + buffer.bytes) continue;
      if (buffer.memory.expired()) continue;
      return {&buffer, begin - buffer.own};
    }
    return {};
  }

  void narrow_buffers(FlatForm& flat) const {
    for (std::size_t i = 0; i < flat.tensors.size(); ++i) {
      const at::ScalarType dtype = flat.tensors[i].values.scalar_type();
      flat.tensors[i].narrow =
          flat.locations[i].buffer && (dtype == at::kFloat || dtype == at::kDouble);
    }
  }

  void remember_buffer(const LinkBuffer& buffer, std::int64_t bytes) {
    std::erase_if(buffers_, [](const KnownBuffer& known) { return known.memory.expired(); });
    buffers_.push_back({.number = ++buffers_made_,
                        .memory = buffer.memory,
                        .own = buffer.own,
                        .bytes = bytes,
                        .parts = buffer.parts});
  }

  const std::shared_ptr<const cluster::Membership> membership_;
  const std::unique_ptr<ProcessLink> link_;
  const int rank_;
  const int world_size_;
  const WireDtype wire_;
  const std::string name_;
  const ReductionBlocks one_leaf_each_;
  StepProgress progress_;
  Piggyback piggyback_;
  std::optional<Error> failure_;
  std::int64_t collectives_ = 0;
  std::vector<KnownBuffer> buffers_;
  std::uint64_t buffers_made_ = 0;
};

}  // namespace

std::unique_ptr<ProcessCommunicator> make_linked_communicator(
    std::unique_ptr<ProcessLink> link, std::shared_ptr<const cluster::Membership> membership,
    WireDtype wire) {
  return std::make_unique<LinkedCommunicator>(std::move(link), std::move(membership), wire);
}

}  // namespace brigade::comm
