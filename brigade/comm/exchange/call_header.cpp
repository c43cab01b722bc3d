#include "brigade/comm/exchange/call_header.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
  // The finalizer of splitmix64: every bit of the value reaches every bit of the digest.
  std::uint64_t z = digest + 0x9E3779B97F4A7C15ULL + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

CallHeader header_of(const CollectiveCall& call) {
  CallHeader header{.kind = call.kind,
                    .op = call.op,
                    .root = call.root,
                    .tensors = static_cast<int>(call.tensors.size())};
  for (const at::Tensor& tensor : call.tensors) {
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.scalar_type()));
    if (call.traits().gathers) {
      check_argument(
          tensor.dim() <= CallHeader::kMaxDimensions,
          base::str_cat(call.name(), ": the tensor ", shape_of(tensor), " has more than ",
                        CallHeader::kMaxDimensions, " dimensions; flatten it first."));
      header.dimensions = static_cast<int>(tensor.dim());
      std::copy(tensor.sizes().begin(), tensor.sizes().end(), header.sizes.begin());
      continue;
    }
    header.digest = mix(header.digest, static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes())
      header.digest = mix(header.digest, static_cast<std::uint64_t>(size));
  }
  return header;
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
                         headers[rank].name());
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
    if (!own.same_call(other) || own.tensors != other.tensors || own.digest != other.digest)
      return static_cast<int>(rank);
  }
  return std::nullopt;
}

std::string describe_mismatch(std::span<const CallHeader> headers, int mine, int other,
                              std::span<const std::string> shapes) {
  const CallHeader& own = headers[mine];
  const CallHeader& theirs = headers[other];
  if (!own.same_call(theirs)) {
    return base::str_cat("rank ", mine, " is in ", own.name(), " (root ", own.root, ") while rank ",
                         other, " is in ", theirs.name(), " (root ", theirs.root,
                         "): every rank must make the same collective calls, in the same order.");
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

}  // namespace brigade::comm
