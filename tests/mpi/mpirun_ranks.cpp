#include "tests/mpi/mpirun_ranks.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/resolver.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::comm {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience = std::chrono::seconds(120);
constexpr milliseconds kPause{5};

class MembershipOfRun final : public RunMembership {
 public:
  MembershipOfRun(std::shared_ptr<cluster::Membership> all, std::string name, int rank)
      : all_(std::move(all)),
        name_(std::move(name)),
        rank_(rank),
        watcher_([this](const std::stop_token& stop) { watch(stop); }) {}

  const cluster::Member& self() const override {
    return members()[static_cast<std::size_t>(rank_)];
  }
  const std::vector<cluster::Member>& members() const override { return all_->members(); }
  int generation() const override { return all_->generation(); }

  void set(std::string_view key, std::string_view value) override { all_->set(own(key), value); }
  std::string get(std::string_view key, milliseconds timeout) override {
    return all_->get(own(key), timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return all_->add(own(key), delta);
  }
  std::int64_t append(std::string_view key, std::string_view value) override {
    return all_->append(own(key), value);
  }
  void barrier(std::string_view name, milliseconds timeout) override {
    all_->barrier(own(name), timeout);
  }

  std::optional<cluster::LostMember> lost() const override {
    const concurrency::MutexLock lock(mutex_);
    return lost_;
  }
  concurrency::CancelToken lost_token() const override { return lost_token_; }
  void leave() noexcept override {}

  void lose(int rank, const std::string& reason) override {
    set(base::str_cat("why lost/", rank), reason);
    set("who is lost", std::to_string(rank));
    add("lost", 1);
  }

 private:
  std::string own(std::string_view key) const { return base::str_cat(name_, "/", key); }

  void watch(const std::stop_token& stop) {
    while (add("lost", 0) == 0) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(kPause);
    }
    const auto rank = static_cast<std::size_t>(std::stoi(get("who is lost", kPatience)));
    const std::string reason = get(base::str_cat("why lost/", rank), kPatience);
    {
      const concurrency::MutexLock lock(mutex_);
      lost_ = cluster::LostMember{members()[rank], reason};
    }
    lost_token_.cancel();
  }

  const std::shared_ptr<cluster::Membership> all_;
  const std::string name_;
  const int rank_;
  const concurrency::CancelToken lost_token_;
  mutable concurrency::Mutex mutex_;
  std::optional<cluster::LostMember> lost_ BRIGADE_GUARDED_BY(mutex_);
  std::jthread watcher_;
};

/// An error as text, and back; empty for none.
std::string to_text(const std::optional<Error>& error) {
  return error ? base::str_cat(static_cast<int>(error->code()), " ", error->what()) : "";
}

std::exception_ptr from_text(const std::string& text) {
  if (text.empty()) return nullptr;
  const std::size_t space = text.find(' ');
  return std::make_exception_ptr(
      Error(static_cast<ErrorCode>(std::stoi(text.substr(0, space))), text.substr(space + 1)));
}

}  // namespace

MpirunRanks::MpirunRanks() : all_(rpc::join(cluster::resolve_cluster())) {}

// The store is in rank 0's process, and others may still read it.
MpirunRanks::~MpirunRanks() {
  try {
    all_->barrier("end of all", kPatience);
  } catch (const Error&) {
  }
}

int MpirunRanks::rank() const {
  return all_->self().rank;
}

int MpirunRanks::world_size() const {
  return static_cast<int>(all_->members().size());
}

std::int64_t MpirunRanks::add(std::int64_t delta) {
  return all_->add("shared number", delta);
}

std::string MpirunRanks::next_name() {
  return base::str_cat("run/", ++runs_);
}

std::vector<std::exception_ptr> MpirunRanks::run(const CommunicationOptions& options,
                                                 const BodyOfRun& body) {
  return run_as(std::make_shared<MembershipOfRun>(all_, next_name(), rank()), options, body);
}

std::vector<std::exception_ptr> MpirunRanks::run_displaced(const CommunicationOptions& options,
                                                           const BodyOfRun& body) {
  const int next_rank = (rank() + 1) % world_size();
  return run_as(std::make_shared<MembershipOfRun>(all_, next_name(), next_rank), options, body);
}

std::vector<std::exception_ptr> MpirunRanks::run_as(std::shared_ptr<RunMembership> membership,
                                                    const CommunicationOptions& options,
                                                    const BodyOfRun& body) {
  std::optional<Error> mine;
  try {
    body(*make_process_communicator(membership, options), *membership);
  } catch (const Error& error) {
    mine = error;
  } catch (const std::exception& error) {
    mine = Error(ErrorCode::kInternal, error.what());
  }
  const int own_rank = membership->self().rank;
  if (mine) membership->lose(own_rank, mine->what());
  membership->set(base::str_cat("result/", own_rank), to_text(mine));
  std::vector<std::exception_ptr> thrown;
  for (int rank = 0; rank < world_size(); ++rank)
    thrown.push_back(from_text(membership->get(base::str_cat("result/", rank), kPatience)));
  membership->barrier("end", kPatience);
  return thrown;
}

}  // namespace brigade::comm
