#include "brigade/comm/exchange/call_header.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

std::string_view to_string(Collective call) {
  switch (call) {
    case Collective::kSum:
      return "all_reduce(sum)";
    case Collective::kMean:
      return "all_reduce(mean)";
    case Collective::kMax:
      return "all_reduce(max)";
    case Collective::kMin:
      return "all_reduce(min)";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kMakeBuffer:
      return "make_buffer";
  }
  return "an unknown call";
}

Collective reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Collective::kSum;
    case ReduceOp::kMean:
      return Collective::kMean;
    case ReduceOp::kMax:
      return Collective::kMax;
    case ReduceOp::kMin:
      return Collective::kMin;
  }
  return Collective::kSum;
}

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
  // The finalizer of splitmix64: every bit of the value reaches every bit of the digest.
  std::uint64_t z = digest + 0x9E3779B97F4A7C15ULL + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

CallHeader header_of(Collective call, std::span<const at::Tensor> tensors, int root) {
  CallHeader header{.call = call, .root = root, .tensors = static_cast<int>(tensors.size())};
  for (const at::Tensor& tensor : tensors) {
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.scalar_type()));
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes())
      header.digest = mix(header.digest, static_cast<std::uint64_t>(size));
  }
  return header;
}

CallHeader gather_header(const at::Tensor& tensor) {
  check_argument(tensor.dim() <= CallHeader::kMaxDimensions,
                 base::str_cat("all_gather: the tensor ", shape_of(tensor), " has more than ",
                               CallHeader::kMaxDimensions, " dimensions; flatten it first."));
  CallHeader header{.call = Collective::kAllGather,
                    .tensors = 1,
                    .dimensions = static_cast<int>(tensor.dim()),
                    .digest = mix(0, static_cast<std::uint64_t>(tensor.scalar_type()))};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), header.sizes.begin());
  return header;
}

std::string shape_of(const at::Tensor& tensor) {
  return base::str_cat(tensor.scalar_type(), tensor.sizes());
}

std::string shapes_of(std::span<const at::Tensor> tensors, std::size_t limit) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    const std::string line = shape_of(tensor) + "\n";
    if (text.size() + line.size() > limit) break;
    text += line;
  }
  return text;
}

namespace {

bool same_call(const CallHeader& a, const CallHeader& b) {
  return a.call == b.call && a.root == b.root;
}

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

}  // namespace

std::vector<CallStamp> stamps_of(std::span<const CallHeader> headers) {
  std::vector<CallStamp> stamps;
  for (const CallHeader& header : headers) stamps.push_back(header.stamp);
  return stamps;
}

std::optional<int> first_in_another_step(std::span<const CallHeader> headers, int mine) {
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (!headers[mine].stamp.matches(headers[rank].stamp)) return static_cast<int>(rank);
  }
  return std::nullopt;
}

StepMismatch step_mismatch(std::span<const CallHeader> headers, int mine, int other) {
  const auto describe_rank = [&](int rank) {
    return base::str_cat("rank ", rank, " is ", describe(headers[rank].stamp), ", in ",
                         headers[rank].call);
  };
  return {{.rank = mine, .stamp = headers[mine].stamp},
          {.rank = other, .stamp = headers[other].stamp},
          base::str_cat("The workers are not in the same step: ", describe_rank(mine), ", while ",
                        describe_rank(other),
                        ". Every worker must make the same steps, and the same calls in them; "
                        "resume from a checkpoint.")};
}

std::optional<int> first_mismatch(std::span<const CallHeader> headers, int mine) {
  const CallHeader& own = headers[mine];
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const CallHeader& other = headers[rank];
    if (!same_call(own, other) || own.tensors != other.tensors || own.digest != other.digest)
      return static_cast<int>(rank);
  }
  return std::nullopt;
}

std::string describe_mismatch(std::span<const CallHeader> headers, int mine, int other,
                              std::span<const std::string> shapes) {
  const CallHeader& own = headers[mine];
  const CallHeader& theirs = headers[other];
  if (!same_call(own, theirs)) {
    return base::str_cat("rank ", mine, " is in ", own.call, " (root ", own.root, ") while rank ",
                         other, " is in ", theirs.call, " (root ", theirs.root,
                         "): every rank must make the same collective calls, in the same order.");
  }
  if (own.tensors != theirs.tensors) {
    return base::str_cat(own.call, ": rank ", other, " passed ", theirs.tensors,
                         " tensors and rank ", mine, " ", own.tensors,
                         "; every rank must pass the same number.");
  }
  const auto difference = first_difference(shapes[mine], shapes[other]);
  if (!difference) {
    return base::str_cat(own.call, ": one of the ", own.tensors,
                         " tensors has another shape or dtype on rank ", other, " than on rank ",
                         mine, "; they must be the same.");
  }
  return base::str_cat(own.call, ": tensor ", difference->tensor, " is ", difference->theirs,
                       " on rank ", other, " and ", difference->mine, " on rank ", mine,
                       own.call == Collective::kAllGather
                           ? "; dtypes must be the same."
                           : "; shapes and dtypes must be the same.");
}

}  // namespace brigade::comm
