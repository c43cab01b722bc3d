#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "brigade/cluster/membership.h"

namespace brigade::comm {

/// Adapts a membership's store to `c10d::Store`, so that c10d's backends need no separate store.
/// Values are stored as hexadecimal text.
///
/// Thread-safety: all functions from any thread.
class C10dStore final : public c10d::Store {
 public:
  /// Prepends `prefix` to all keys. Waits for keys end after `timeout`.
  C10dStore(std::shared_ptr<cluster::Membership> membership, std::string prefix,
            std::chrono::milliseconds timeout);

  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  /// Returns false: keys exist as long as the membership.
  bool deleteKey(const std::string& key) override;
  /// Throws kUnimplemented: the number of keys is not known.
  std::int64_t getNumKeys() override;

 private:
  const std::shared_ptr<cluster::Membership> membership_;
  const std::string prefix_;
};

}  // namespace brigade::comm
