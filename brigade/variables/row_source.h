#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "brigade/base/ambient.h"

namespace brigade::variables {

/// Rows that a layer is about to read.
struct WantedRows {
  at::Tensor table;  ///< a component of a trainable variable: [rows, ...]
  at::Tensor ids;    ///< int64 [n], of rows that exist; any order, also repeated
};

/// Brings rows of variables whose true values are elsewhere (parameter servers), so that a step
/// transfers the rows that its batch needs instead of whole tables. A strategy sets it for its
/// replicas; layers call `fetch_rows`.
///
/// Thread-safety: all functions from any replica's thread.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// When it returns, these rows of the tables have their current values; other rows may not. May
  /// wait. Does nothing for tables that are always current.
  virtual void fetch(std::span<const WantedRows> wanted) = 0;
};

inline constexpr base::AmbientSlot<RowSource> kRowSourceSlot{base::AmbientIndex::kRowSource};

/// For layers, before they read rows: fetches them from the calling replica's source. Does nothing
/// outside of replicas, and with strategies that keep the variables in this process. Whoever uses
/// rows that were fetched must read no others: their gradient is sparse, with the rows alone.
inline void fetch_rows(std::span<const WantedRows> wanted) {
  if (RowSource* source = kRowSourceSlot.get()) source->fetch(wanted);
}

}  // namespace brigade::variables
