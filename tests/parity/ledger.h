#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace brigade::parity {

/// Counts how often each example was used for training, by its id in [0, count).
///
/// Thread-safety: all calls from any thread.
class Ledger {
 public:
  void add(const at::Tensor& ids) {
    const std::lock_guard lock(mutex_);
    for (std::int64_t i = 0; i < ids.numel(); ++i) ++counts_[ids[i].item<std::int64_t>()];
  }
  void expect_each(std::int64_t count, int times) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(static_cast<std::int64_t>(counts_.size()), count);
    for (const auto& [id, seen] : counts_) EXPECT_EQ(seen, times) << "example " << id;
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, int> counts_;
};

}  // namespace brigade::parity
