#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/cluster/membership.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/io/strict_json.h"
#include "brigade/launch/hosts.h"
#include "brigade/launch/mailbox.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::launch {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using std::chrono::milliseconds;

constexpr const char* kJob = "host";
// The timeout of one wait for the next message. The wait ends immediately if a host is lost.
constexpr milliseconds kSlice = std::chrono::seconds(5);
// After a failed call, the time to wait for the report of the lost member.
constexpr milliseconds kLossReportTime{1000};
constexpr milliseconds kPause{200};
constexpr int kLostCode = 137;

// The messages are a list in the store: senders append, and all launchers read it in order.
constexpr const char* kMessages = "message";
std::string key_of(std::int64_t number) {
  return base::str_cat(kMessages, "/", number);
}

/// The hosts' parts of the job.
struct Shares {
  std::vector<int> processes;          // by host
  std::vector<std::string> addresses;  // of the tasks of a job with roles, by process
};

class RemoteHosts final : public Hosts {
 public:
  RemoteHosts(std::shared_ptr<cluster::Membership> membership, Shares shares, milliseconds patience)
      : membership_(std::move(membership)),
        shares_(std::move(shares)),
        patience_(patience),
        on_lost_(membership_->lost_token().on_cancel([this] { on_lost(); })),
        reader_([this] { read(); }),
        writer_([this] { write(); }) {}

  ~RemoteHosts() override {
    leave();
    reader_.join();
  }

  int self() const override { return membership_->self().rank; }
  int rendezvous_round() const override { return membership_->generation(); }
  const std::vector<int>& processes() const override { return shares_.processes; }
  const std::vector<std::string>& addresses() const override { return shares_.addresses; }
  std::string name(int host) const override {
    const auto& member = membership_->members()[static_cast<std::size_t>(host)];
    return base::str_cat("host ", host, " (", member.host, ")");
  }

  void send(const Message& message) override {
    const concurrency::MutexLock lock(mutex_);
    outgoing_.push_back(encode(message));
    if (std::holds_alternative<HostFailed>(message)) is_failing_ = true;
    changed_.notify_all();
  }

  int descriptor() const override { return incoming_.descriptor(); }

  std::vector<Message> take() override {
    std::vector<Message> messages;
    for (auto& item : incoming_.take()) {
      if (item) messages.push_back(std::move(*item));
    }
    return messages;
  }

  std::optional<LostHost> lost_host() const override {
    if (const auto lost = membership_->lost()) {
      const cluster::Member& who = lost->member;
      const char* const what = who.rank == self() ? "This launcher, of" : "The launcher of";
      return LostHost{base::str_cat(what, " host ", who.rank, " (", who.host, ", pid ", who.pid,
                                    ") was lost: ", lost->reason),
                      kLostCode, who.rank != 0};
    }
    const concurrency::MutexLock lock(mutex_);
    return broken_;
  }

  void leave() noexcept override {
    {
      const concurrency::MutexLock lock(mutex_);
      if (std::exchange(is_leaving_, true)) return;
      changed_.notify_all();
    }
    writer_.join();
    try {
      if (!lost_host() && !is_failing_) membership_->barrier("the end", patience_);
    } catch (const Error&) {
      // A host that is lost need not be waited for.
    }
    membership_->leave();
  }

 private:
  void on_lost() {
    incoming_.put(std::nullopt);
    const concurrency::MutexLock lock(mutex_);
    changed_.notify_all();
  }

  void write() {
    for (;;) {
      std::string message;
      {
        const concurrency::MutexLock lock(mutex_);
        while (outgoing_.empty() && !is_leaving_) changed_.wait(mutex_);
        if (outgoing_.empty()) return;
        message = std::move(outgoing_.front());
        outgoing_.pop_front();
      }
      try {
        membership_->append(kMessages, message);
      } catch (const Error& error) {
        return give_up(error);
      }
    }
  }

  void read() {
    for (std::int64_t number = 1;;) {
      try {
        const std::string text = membership_->get(key_of(number), kSlice);
        ++number;
        incoming_.put(decode(text));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kDeadlineExceeded && !is_leaving()) continue;
        return give_up(error);
      }
    }
  }

  bool is_leaving() const {
    const concurrency::MutexLock lock(mutex_);
    return is_leaving_;
  }

  void give_up(const Error& error) {
    {
      const TimePoint latest = Clock::now() + kLossReportTime;
      const concurrency::MutexLock lock(mutex_);
      while (!is_leaving_ && !membership_->lost() && Clock::now() < latest)
        changed_.wait_until(mutex_, latest);
      if (!is_leaving_ && !broken_) {
        broken_ = LostHost{
            base::str_cat("The launcher of ", name(0), " has ended the job: ", error.what())};
      }
    }
    incoming_.put(std::nullopt);
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const Shares shares_;
  const milliseconds patience_;               // at the end
  Mailbox<std::optional<Message>> incoming_;  // nullopt: check `lost_host`
  bool is_failing_ = false;  // has reported a failure, so it waits for no other host at the end
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::deque<std::string> outgoing_ BRIGADE_GUARDED_BY(mutex_);
  bool is_leaving_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::optional<LostHost> broken_ BRIGADE_GUARDED_BY(mutex_);
  const concurrency::CancelRegistration on_lost_;
  std::jthread reader_;
  std::jthread writer_;
};

[[noreturn]] void fail_to_read(const cluster::Member& member, const std::string& why) {
  throw Error(ErrorCode::kDataLoss, "What the launcher of host ", member.rank, " (", member.host,
              ") says of its job cannot be read (", base::shortened(why),
              "): run the same build of Brigade on all hosts.");
}

/// What the launcher of `member` says about its job.
Json parse(const std::string& text, const cluster::Member& member) {
  constexpr std::size_t kDeepest = 32;
  return io::parse_strict_json(text, kDeepest,
                               [&](const std::string& why) { fail_to_read(member, why); });
}

/// The options that all launchers must have in common.
Json terms_of(const JobOptions& options) {
  const Roles roles = options.roles.value_or(Roles{.servers = 0, .workers = 0});
  return {{"--max-restarts", options.max_restarts},
          {"--ps", roles.servers},
          {"--ps-replicas", roles.server_replicas},
          {"--workers", roles.workers},
          {"--chief", roles.has_chief},
          {"--evaluator", roles.has_evaluator}};
}

/// Where other hosts reach the tasks of this one: the address with which its launcher has reached
/// that of host 0. If it did so over loopback, they are one machine.
std::string address_of_tasks(const cluster::Membership& membership, const HostOptions& hosts) {
  const std::string& own = membership.self().address;
  if (hosts.index > 0 && !own.empty()) return own;
  return cluster::parse_address(hosts.rendezvous).host;
}

std::vector<std::string> addresses_of(const Json& said, std::size_t count,
                                      const cluster::Member& member) {
  auto addresses = said.at("addresses").get<std::vector<std::string>>();
  if (addresses.size() == count) return addresses;
  fail_to_read(member, base::str_cat(addresses.size(), " addresses for ", count, " tasks"));
}

void check_equal(const Json& own, const Json& other, const cluster::Member& member) {
  for (const auto& [flag, value] : own.items()) {
    const Json& others = other.at(flag);
    if (others == value) continue;
    throw Error(ErrorCode::kFailedPrecondition, "The launchers disagree: that of host ",
                member.rank, " (", member.host, ") has ", flag, " ", others.dump(),
                " and this one ", value.dump(), "; give all launchers the same value.");
  }
}

void add_share(Shares& shares, const Json& said, bool has_roles, const cluster::Member& member) {
  const int processes = said.at("processes").get<int>();
  shares.processes.push_back(processes);
  if (!has_roles) return;
  if (said.contains("failure")) {
    throw Error(ErrorCode::kResourceExhausted, "The launcher of host ", member.rank, " (",
                member.host, ") cannot start its tasks: ", said.at("failure").get<std::string>());
  }
  for (std::string& address : addresses_of(said, static_cast<std::size_t>(processes), member))
    shares.addresses.push_back(std::move(address));
}

/// What this launcher says about its job. If it has no addresses for its tasks, the others must
/// know: they would wait for what it says.
Json own_share(const cluster::Membership& membership, const JobOptions& options,
               const Json& terms) {
  Json share{{"processes", options.processes}, {"terms", terms}};
  if (!options.roles) return share;
  try {
    share["addresses"] = free_addresses(*options.roles, options.hosts.index,
                                        address_of_tasks(membership, options.hosts));
  } catch (const Error& error) {
    share["failure"] = error.what();
  }
  return share;
}

/// Exchanges the numbers of processes with which the hosts begin, and the addresses of tasks.
Shares exchange(cluster::Membership& membership, const JobOptions& options) {
  const auto key = [](int host) { return base::str_cat("host/", host); };
  const milliseconds patience = options.hosts.start_timeout;
  const Json terms = terms_of(options);
  membership.set(key(membership.self().rank), own_share(membership, options, terms).dump());
  std::vector<Json> said;
  for (const cluster::Member& member : membership.members())
    said.push_back(parse(membership.get(key(member.rank), patience), member));
  // A launcher that finds a difference ends, so wait until all have read and find it too.
  membership.barrier("all have read", patience);
  Shares shares;
  for (const cluster::Member& member : membership.members()) {
    const Json& other = said[static_cast<std::size_t>(member.rank)];
    try {
      check_equal(terms, other.at("terms"), member);
      add_share(shares, other, options.roles.has_value(), member);
    } catch (const Json::exception& error) {  // another build may say other things
      fail_to_read(member, error.what());
    }
  }
  return shares;
}

std::unique_ptr<Hosts> join_once(const JobOptions& options, int rendezvous_round,
                                 milliseconds timeout, const concurrency::CancelToken& cancel) {
  const HostOptions& hosts = options.hosts;
  const cluster::ClusterConfig config{.task = {.job = kJob, .index = hosts.index},
                                      .rank = hosts.index,
                                      .world_size = hosts.count,
                                      .rendezvous = hosts.rendezvous,
                                      .generation = rendezvous_round,
                                      .source = "the launcher's flags"};
  auto membership = rpc::join(config, {.key = options.key,
                                       .start_timeout = timeout,
                                       .peer_timeout = options.peer_timeout,
                                       .cancel = cancel});
  Shares shares = exchange(*membership, options);
  return std::make_unique<RemoteHosts>(std::move(membership), std::move(shares),
                                       options.peer_timeout);
}

/// Whether the other launchers have not noticed the loss yet of the one that this one replaces.
bool is_rank_still_taken(const Error& error) {
  const auto* const taken = dynamic_cast<const rpc::RankTakenError*>(&error);
  return taken != nullptr && taken->holder() == rpc::RankHolder::kGone;
}

}  // namespace

std::unique_ptr<Hosts> join_hosts(const JobOptions& options, int rendezvous_round,
                                  const concurrency::CancelToken& cancel) {
  const TimePoint deadline = Clock::now() + options.hosts.start_timeout;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    try {
      return join_once(options, rendezvous_round, std::max(left, milliseconds(1)), cancel);
    } catch (const Error& error) {
      const bool is_over = error.code() == ErrorCode::kAborted;
      if (left.count() <= 0 || (!is_over && !is_rank_still_taken(error))) throw;
      if (is_over) {
        ++rendezvous_round;
      } else {
        concurrency::interruptible_wait(kPause, cancel);
      }
    }
  }
}

}  // namespace brigade::launch
