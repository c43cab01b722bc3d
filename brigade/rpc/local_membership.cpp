#include "brigade/rpc/remote.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/key_store.h"
#include "brigade/rpc/rendezvous_state.h"

namespace brigade::rpc {
namespace {

class LocalMembership final : public cluster::Membership {
 public:
  LocalMembership(const cluster::Member& self, int generation)
      : members_{self}, generation_(generation) {}

  const cluster::Member& self() const override { return members_.front(); }
  const std::vector<cluster::Member>& members() const override { return members_; }
  int generation() const override { return generation_; }

  void set(std::string_view key, std::string_view value) override {
    const concurrency::MutexLock lock(mutex_);
    keys_.set(key, value);
    is_set_.notify_all();
  }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const concurrency::MutexLock lock(mutex_);
    for (;;) {
      if (auto value = keys_.find(key)) return std::move(*value);
      if (std::chrono::steady_clock::now() >= deadline) {
        throw Error(ErrorCode::kDeadlineExceeded,
                    "This process, the only member, has not set key '", key, "' within ",
                    in_seconds(timeout), ".");
      }
      is_set_.wait_until(mutex_, deadline);
    }
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    const concurrency::MutexLock lock(mutex_);
    const std::int64_t sum = keys_.add(key, delta);
    is_set_.notify_all();
    return sum;
  }

  std::int64_t append(std::string_view key, std::string_view value) override {
    const concurrency::MutexLock lock(mutex_);
    const std::int64_t number = keys_.append(key, value);
    is_set_.notify_all();
    return number;
  }

  void barrier(std::string_view, std::chrono::milliseconds) override {}
  std::optional<cluster::LostMember> lost() const override { return std::nullopt; }
  concurrency::CancelToken lost_token() const override { return lost_token_; }
  void leave() noexcept override {}

 private:
  const std::vector<cluster::Member> members_;
  const int generation_;
  const concurrency::CancelToken lost_token_;
  concurrency::Mutex mutex_;
  concurrency::Condition is_set_;
  KeyStore keys_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<cluster::Membership> make_local_membership(const cluster::Member& self,
                                                           int generation) {
  return std::make_shared<LocalMembership>(self, generation);
}

}  // namespace brigade::rpc
