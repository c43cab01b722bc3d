#include "brigade/comm/shared_memory/shared_layout.h"

#include <sstream>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

std::size_t slots_offset() {
  return sizeof(BarrierFailure);
}
std::size_t areas_offset(int world_size) {
  return slots_offset() + world_size * sizeof(BarrierSlot);
}
std::size_t chunks_offset(int world_size) {
  constexpr std::size_t kPage = 4096;
  return (areas_offset(world_size) + world_size * sizeof(RankArea) + kPage - 1) & ~(kPage - 1);
}
std::size_t total_bytes(int world_size) {
  return chunks_offset(world_size) +
         2 * (world_size + 1) * static_cast<std::size_t>(SharedLayout::kChunkBytes);
}

/// The segment's handle as rank 0 writes it: "<pid> <descriptor> <nonce> <nonce>"; empty: it could
/// not be created.
std::string to_text(const SegmentHandle& handle) {
  return base::str_cat(handle.pid, " ", handle.descriptor, " ", handle.nonce[0], " ",
                       handle.nonce[1]);
}

SegmentHandle handle_of(const std::string& text) {
  SegmentHandle handle;
  std::istringstream words(text);
  words >> handle.pid >> handle.descriptor >> handle.nonce[0] >> handle.nonce[1];
  if (words.fail()) throw Error(ErrorCode::kUnavailable, "rank 0 could not create shared memory.");
  return handle;
}

SharedSegment make_or_open(cluster::Membership& membership, const std::string& key,
                           std::size_t bytes, std::chrono::milliseconds timeout) {
  if (membership.self().rank != 0)
    return SharedSegment::open(handle_of(membership.get(key, timeout)), bytes);
  try {
    SharedSegment segment = SharedSegment::make(bytes);
    membership.set(key, to_text(segment.handle()));
    return segment;
  } catch (const Error&) {
    membership.set(key, "");
    throw;
  }
}

}  // namespace

SharedLayout SharedLayout::create_or_map(cluster::Membership& membership, const std::string& name,
                                         std::chrono::milliseconds timeout) {
  const int world_size = static_cast<int>(membership.members().size());
  const auto key_of = [&](int rank) { return base::str_cat(name, "/mapped/", rank); };
  SharedSegment segment;
  std::string failure;
  try {
    segment = make_or_open(membership, name + "/segment", total_bytes(world_size), timeout);
  } catch (const Error& error) {
    failure = error.what();
  }
  // All members read what all report, so all throw if one of them could not map it.
  membership.set(key_of(membership.self().rank), failure);
  for (const cluster::Member& member : membership.members()) {
    const std::string text = membership.get(key_of(member.rank), timeout);
    if (!text.empty()) throw Error(ErrorCode::kUnavailable, base::str_cat(member, ": ", text));
  }
  segment.close_descriptor();
  return SharedLayout(std::move(segment), world_size);
}

BarrierFailure& SharedLayout::failure() const {
  return *reinterpret_cast<BarrierFailure*>(segment_.data());
}

std::span<BarrierSlot> SharedLayout::slots() const {
  return {reinterpret_cast<BarrierSlot*>(segment_.data() + slots_offset()),
          static_cast<std::size_t>(world_size_)};
}

RankArea& SharedLayout::area(int rank) const {
  return reinterpret_cast<RankArea*>(segment_.data() + areas_offset(world_size_))[rank];
}

std::byte* SharedLayout::staging(int rank, std::uint64_t chunk_number) const {
  return segment_.data() + chunks_offset(world_size_) +
         (static_cast<std::size_t>(rank) * 2 + chunk_number % 2) * kChunkBytes;
}

std::byte* SharedLayout::result(std::uint64_t chunk_number) const {
  return staging(world_size_, chunk_number);
}

}  // namespace brigade::comm
