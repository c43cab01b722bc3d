#pragma once

#include "brigade/base/ambient.h"

namespace brigade::data {

/// The memory in which an iterator stacks batches.
enum class BatchMemory {
  kPageable,  ///< Ordinary memory.
  /// Memory that a GPU reads itself, so that a batch is copied to the GPU from where it was stacked
  /// and the host waits for nothing. The system cannot swap it out.
  kPinned,
};

/// What `Structure`, `Unbatch` and `Padding` stack in: see `BatchMemoryScope`.
inline constexpr base::AmbientSlot<const BatchMemory> kBatchMemorySlot{
    base::AmbientIndex::kBatchMemory};

/// While it exists, batches that the calling thread stacks are in this memory: transforms open it
/// with the memory of their iteration (`IteratorOptions::batch_memory`).
///
/// Thread-safety: as base::AmbientScope.
class BatchMemoryScope {
 public:
  explicit BatchMemoryScope(BatchMemory memory)
      : memory_(memory), scope_(kBatchMemorySlot, &memory_) {}

 private:
  const BatchMemory memory_;
  base::AmbientScope<const BatchMemory> scope_;
};

/// The memory for a batch that the calling thread stacks now.
inline BatchMemory batch_memory() {
  const BatchMemory* const memory = kBatchMemorySlot.get();
  return memory == nullptr ? BatchMemory::kPageable : *memory;
}

}  // namespace brigade::data
