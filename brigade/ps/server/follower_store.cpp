#include "brigade/ps/server/follower_store.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/io/atomic_write.h"
#include "brigade/ps/server/server_epoch.h"

namespace brigade::ps {
namespace {

// A disk that is slower has failed: the one that acts waits for this one no longer than that.
constexpr std::chrono::minutes kLongestSync{1};

}  // namespace

FollowerStore::FollowerStore(std::shared_ptr<io::FileSystem> files, FollowerStoreOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  io::create_synced_directories(*files_, options_.store.folder);
  epoch_ = read_epoch(*files_, options_.store.folder);
  if (epoch_ == 0) clear_store(*files_, options_.store.folder);
  open();
}

void FollowerStore::open() {
  open_.emplace(open_store(files_, options_.store, options_.snapshot_after_bytes));
}

void FollowerStore::write_epoch(std::int64_t epoch) {
  ps::write_epoch(*files_, options_.store.folder, epoch);
  epoch_ = epoch;
}

OpenStore FollowerStore::release() {
  check_state(open_.has_value(), "The store of a replica was given away already.");
  OpenStore store = std::move(*open_);
  open_.reset();
  source_ = {};
  reception_.reset();
  return store;
}

void FollowerStore::adopt(OpenStore store) {
  open_.emplace(std::move(store));
}

void FollowerStore::describe(FollowRequest& request) const {
  request.source = source_;
  request.applied = open_ ? open_->store->last_record() : 0;
  if (reception_) request.part = reception_->next();
}

FollowerStore::Taken FollowerStore::take(const FollowSource& source, FollowReply reply) {
  if (reception_ && (receiving_ != source || reply.must_fill)) reception_.reset();
  if (reply.part) {
    if (reception_ && !reception_->fits(*reply.part)) reception_.reset();
    if (!reception_) return Taken::kNothing;
    return reception_->add(std::move(*reply.part)) ? Taken::kState : Taken::kNothing;
  }
  if (reply.must_fill || source_ != source) {
    reception_.emplace();
    receiving_ = source;
    return Taken::kNothing;
  }
  if (!reply.records.empty()) {
    ParameterStore& store = *open_->store;
    store.follow(store.last_record() + 1, reply.records);
    store.wait_committed(store.last_record(), std::chrono::steady_clock::now() + kLongestSync);
    open_->snapshots->consider();
  }
  return reply.is_complete ? Taken::kEverything : Taken::kNothing;
}

void FollowerStore::fill() {
  const io::Path& folder = options_.store.folder;
  write_epoch(0);  // until it is complete
  open_.reset();
  clear_store(*files_, folder);
  install_store(files_, folder, reception_->moment());
  open();
  source_ = receiving_;
  reception_.reset();
}

}  // namespace brigade::ps
