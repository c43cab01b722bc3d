// The one file that includes c10d's Gloo backend, whose header needs Gloo's own.
#define USE_C10D_GLOO

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/host_lookup.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/exchange/exchange_link.h"
#include "brigade/comm/peer_status.h"
#include "brigade/concurrency/mutex.h"

// libtorch exports this; Debian's headers of Gloo do not declare it. (c10d calls it where the
// environment has GLOO_DEVICE_TRANSPORT=TCP_TLS and three paths; calling it spares changing the
// environment of a program that has threads.)
namespace gloo::transport::tcp::tls {
std::shared_ptr<gloo::transport::Device> CreateDevice(const gloo::transport::tcp::attr& attributes,
                                                      std::string private_key,
                                                      std::string certificate,
                                                      std::string authority_file,
                                                      std::string authority_folder);
}  // namespace gloo::transport::tcp::tls

namespace brigade::comm {

bool gloo_is_built_in() {
  return true;
}

namespace {

using c10d::ProcessGroupGloo;
using gloo::transport::tcp::attr;
using std::chrono::milliseconds;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// How long the members may take to connect after all have started.
constexpr milliseconds kGlooConnectTimeout = std::chrono::seconds(30);
/// How long a broken collective may take to end after all its connections were closed.
constexpr milliseconds kEndTimeout = std::chrono::seconds(2);

std::uint8_t digit_of(char character) {
  if (character >= '0' && character <= '9') return static_cast<std::uint8_t>(character - '0');
  if (character >= 'a' && character <= 'f') return static_cast<std::uint8_t>(character - 'a' + 10);
  throw Error(ErrorCode::kDataLoss, "A value in the store of the job is not hexadecimal.");
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(digit_of(text[i]) << 4 | digit_of(text[i + 1])));
  return bytes;
}

/// Adapts a membership's store to `c10d::Store`, so that c10d's backends need no separate store.
/// Values are stored as hexadecimal text.
///
/// Thread-safety: all functions from any thread.
class C10dStore final : public c10d::Store {
 public:
  /// Prepends `prefix` to all keys. Waits for keys end after `timeout`.
  C10dStore(std::shared_ptr<cluster::Membership> membership, std::string prefix,
            milliseconds timeout)
      : c10d::Store(timeout), membership_(std::move(membership)), prefix_(std::move(prefix)) {}

  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<C10dStore>(membership_, prefix_, timeout_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    membership_->set(prefix_ + key, base::to_hex(std::as_bytes(std::span(value))));
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    return from_hex(membership_->get(prefix_ + key, timeout_));
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return membership_->add(prefix_ + key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    try {
      wait(keys, milliseconds(1));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDeadlineExceeded) throw;
      return false;
    }
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    for (const std::string& key : keys) membership_->get(prefix_ + key, timeout);
  }
  bool deleteKey(const std::string&) override { return false; }  // keys live with the membership
  std::int64_t getNumKeys() override {
    throw Error(ErrorCode::kUnimplemented, "The store of the job does not count its keys.");
  }

 private:
  const std::shared_ptr<cluster::Membership> membership_;
  const std::string prefix_;
};

/// The address at which `elsewhere` reaches this process. If both hosts have the same name, it is
/// the source address of the route to the rendezvous, which all members have reached.
std::optional<std::string> own_address(const cluster::Membership& membership,
                                       const cluster::Member& elsewhere) {
  const cluster::Member& self = membership.self();
  std::optional<std::string> address;
  if (elsewhere.host != self.host) address = cluster::source_address(elsewhere.host);
  if (!address && !self.address.empty()) address = self.address;
  if (!address && !elsewhere.address.empty()) address = cluster::source_address(elsewhere.address);
  // An address that nobody uses (RFC 5737) gives the default route.
  if (!address) address = cluster::source_address("192.0.2.1");
  return address;
}

attr where_to_listen(const cluster::Membership& membership) {
  attr attributes;
  const cluster::Member* const elsewhere = cluster::first_on_another_network(membership);
  if (!elsewhere) {
    attributes.iface = "lo";
    return attributes;
  }
  if (const auto interface = base::environment("GLOO_SOCKET_IFNAME")) {
    attributes.iface = *interface;
    return attributes;
  }
  const auto address = own_address(membership, *elsewhere);
  if (!address) {
    throw Error(ErrorCode::kUnavailable, "This host has no route to ", *elsewhere,
                "; set GLOO_SOCKET_IFNAME to the interface to use.");
  }
  attributes.hostname = *address;
  return attributes;
}

/// A temporary folder that only this user may access, for secrets that a library takes as files. It
/// is removed with this object.
class PrivateFolder {
 public:
  /// Throws kPermissionDenied if the folder cannot be created.
  PrivateFolder() {
    std::error_code ignored;
    path_ = (std::filesystem::temp_directory_path(ignored) / "brigade-tls-XXXXXX").string();
    if (!mkdtemp(path_.data())) {  // made with mode 0700
      throw Error(ErrorCode::kPermissionDenied, "No private folder can be made at ", path_, ": ",
                  std::strerror(errno), ".");
    }
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// Writes a file that only this user may read; returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::string file = path_ + "/" + name;
    const base::FileDescriptor descriptor(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool is_written =
        descriptor.is_open() && ::write(descriptor.number(), content.data(), content.size()) ==
                                    static_cast<ssize_t>(content.size());
    const int failure = errno;
    if (is_written) return file;
    throw Error(ErrorCode::kPermissionDenied, file, " cannot be written: ", std::strerror(failure),
                ".");
  }

 private:
  std::string path_;
};

/// Blocks SIGPIPE in threads that are started while it exists. Gloo's threads write to connections
/// without suppressing this signal, so that a broken connection would end the process.
///
/// Thread-safety: created and destroyed by one thread; affects that thread and those it starts.
class PipeSignalBlock {
 public:
  PipeSignalBlock() {
    const sigset_t set = pipe_signal();
    ::pthread_sigmask(SIG_BLOCK, &set, &former_);
  }
  ~PipeSignalBlock() {
    // A signal that is pending in this thread was caused by Gloo too.
    const sigset_t set = pipe_signal();
    const timespec no_wait{};
    if (sigismember(&former_, SIGPIPE) == 0) ::sigtimedwait(&set, nullptr, &no_wait);
    ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  }
  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  static sigset_t pipe_signal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
  }

  sigset_t former_;
};

/// The address on which Gloo listens, and how it connects.
struct GlooDevice {
  /// Destroyed when the group has been made, in the thread that makes both.
  std::unique_ptr<PipeSignalBlock> pipe_signal;
  std::shared_ptr<gloo::transport::Device> device;
  /// The files of the TLS identity. They are read when a group is made with the device, and are
  /// removed after that. Null without TLS.
  std::shared_ptr<const void> identity = nullptr;
};

/// Listens on the loopback interface if all members share it, without resolving any host name;
/// otherwise on the address from which the other members are reached, or that of the interface
/// GLOO_SOCKET_IFNAME. With a key every connection uses mutual TLS. Throws kPermissionDenied
/// between hosts without a key.
GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key) {
  const cluster::Member* const elsewhere = cluster::first_on_another_network(membership);
  if (elsewhere && !key) {
    throw Error(ErrorCode::kPermissionDenied, "Processes on several hosts (this one on ",
                membership.self().host, ", ", *elsewhere,
                ") need a cluster key: make one with `brigade launch --new-key`, and give it to "
                "all in BRIGADE_CLUSTER_KEY_FILE.");
  }
  const attr attributes = where_to_listen(membership);
  auto pipe_signal = std::make_unique<PipeSignalBlock>();  // the device starts a thread too
  if (!key) {
    return {.pipe_signal = std::move(pipe_signal),
            .device = gloo::transport::tcp::CreateDevice(attributes)};
  }
  const cluster::TlsIdentity identity = cluster::make_tls_identity(*key);
  auto folder = std::make_shared<PrivateFolder>();
  const std::string private_key = folder->write("key.pem", identity.private_key);
  const std::string certificate = folder->write("certificate.pem", identity.certificate);
  const std::string authority = folder->write("authority.pem", identity.authority);
  return {.pipe_signal = std::move(pipe_signal),
          .device = gloo::transport::tcp::tls::CreateDevice(attributes, private_key, certificate,
                                                            authority, ""),
          .identity = std::move(folder)};
}

/// Which works have ended, and whether a member was lost. Waiting threads sleep on it. It is shared
/// with callbacks that may outlive the link.
class Progress {
 public:
  /// The state of one work.
  struct Entry {
    bool has_ended = false;
  };

  std::shared_ptr<Entry> begin() {
    const concurrency::MutexLock lock(mutex_);
    ++running_;
    return std::make_shared<Entry>();
  }
  void mark_ended(Entry& entry) {
    const concurrency::MutexLock lock(mutex_);
    entry.has_ended = true;
    --running_;
    changed_.notify_all();
  }
  void mark_lost() {
    const concurrency::MutexLock lock(mutex_);
    is_lost_ = true;
    changed_.notify_all();
  }
  /// Waits until the work has ended, a member is lost, or `time` has passed. Returns whether the
  /// work has ended.
  bool wait(const Entry& entry, milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const concurrency::MutexLock lock(mutex_);
    while (!entry.has_ended && !is_lost_) {
      if (!changed_.wait_until(mutex_, until)) break;
    }
    return entry.has_ended;
  }
  /// Waits until no work is running, or `time` has passed. Returns whether none is running.
  bool wait_for_all(milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const concurrency::MutexLock lock(mutex_);
    while (running_ > 0) {
      if (!changed_.wait_until(mutex_, until)) return running_ == 0;
    }
    return true;
  }

 private:
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  int running_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_lost_ BRIGADE_GUARDED_BY(mutex_) = false;
};

class GlooLink final : public ExchangeLink {
 public:
  GlooLink(std::shared_ptr<cluster::Membership> membership, const std::string& name,
           const CommunicationOptions& options)
      : ExchangeLink(membership, name, options) {
    on_lost_ =
        membership->lost_token().on_cancel([progress = progress_] { progress->mark_lost(); });
    connect(std::move(membership), name);
  }

  ~GlooLink() override { peer_status().leave(); }

  Transport transport() const override { return Transport::kGloo; }
  void give_up(const Error& reason) noexcept override {
    peer_status().give_up(reason);
    close();
  }

 private:
  /// Two ranks send directly to each other.
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine, const at::Tensor& all,
                                             const Sizes& sizes) override {
    if (world_size() == 2) return start_swap(mine, all, sizes);
    at::Tensor to = all;
    if (are_equal(sizes)) {
      at::Tensor own = mine;
      return begin(group_->_allgather_base(to, own));
    }
    // Gloo gathers equal sizes only.
    at::Tensor copies = mine.repeat({world_size()});
    Sizes sent(sizes.size(), mine.numel());
    Sizes received = sizes;
    return begin(group_->alltoall_base(to, copies, received, sent));
  }

  std::unique_ptr<Transfer> start_swap(const at::Tensor& mine, const at::Tensor& all,
                                       const Sizes& sizes) {
    const int other = 1 - rank();
    const at::Tensor own_range = all.narrow(0, rank() == 0 ? 0 : sizes[0], mine.numel());
    if (own_range.const_data_ptr() != mine.const_data_ptr()) own_range.copy_(mine);
    at::Tensor own = mine;
    at::Tensor theirs = all.narrow(0, other == 0 ? 0 : sizes[0], sizes[other]);
    Sizes received(2, 0);
    received[other] = sizes[other];
    Sizes sent(2, 0);
    sent[other] = mine.numel();
    return begin(group_->alltoall_base(theirs, own, received, sent));
  }

  std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& sent, const at::Tensor& received,
                                             const Sizes& sizes) override {
    at::Tensor to = received;
    at::Tensor from = sent;
    Sizes receive_sizes, send_sizes;  // empty: equal
    if (!are_equal(sizes)) {
      receive_sizes = sizes;
      send_sizes.assign(sizes.size(), sent.numel() / world_size());
    }
    return begin(group_->alltoall_base(to, from, receive_sizes, send_sizes));
  }

  static bool are_equal(const Sizes& sizes) {
    return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes.front(); });
  }

  void broadcast_bytes(const at::Tensor& values, int root) override {
    std::vector<at::Tensor> sent = {values};
    c10d::BroadcastOptions to_all;
    to_all.rootRank = root;
    begin(group_->broadcast(sent, to_all))->wait();
  }

  class GlooTransfer final : public Transfer {
   public:
    GlooTransfer(GlooLink& link, WorkPointer work)
        : link_(link), work_(std::move(work)), entry_(link.progress_->begin()) {
      work_->getFuture()->addCallback([progress = link.progress_, entry = entry_](
                                          c10::ivalue::Future&) { progress->mark_ended(*entry); });
    }
    void wait() override { link_.await(*work_, *entry_); }

   private:
    GlooLink& link_;
    const WorkPointer work_;
    const std::shared_ptr<Progress::Entry> entry_;
  };

  void connect(std::shared_ptr<cluster::Membership> members, const std::string& name) {
    begin_call("make_process_communicator");
    const milliseconds patience = std::min(options().timeout, kGlooConnectTimeout);
    auto settings = ProcessGroupGloo::Options::create(patience);
    const GlooDevice device = make_gloo_device(
        *members, options().key ? options().key : cluster::ClusterKey::from_environment());
    settings->devices.push_back(device.device);
    try {
      group_ = c10::make_intrusive<ProcessGroupGloo>(
          c10::make_intrusive<C10dStore>(std::move(members), name + "/gloo/", patience), rank(),
          world_size(), settings);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw peer_status().explain(what(), base::without_stack_trace(error.what()));
    }
    // Longer than a collective's own timeout, whose error names the late members.
    group_->setTimeout(options().timeout + kEndTimeout);
    // A rank that is done first must not close connections that others are still making.
    const at::Tensor here = at::empty({sizeof(CallHeader)}, at::kByte);
    start_all_gather(here, at::empty({world_size() * here.numel()}, here.options()),
                     Sizes(static_cast<std::size_t>(world_size()), here.numel()))
        ->wait();
  }

  std::unique_ptr<Transfer> begin(WorkPointer work) {
    return std::make_unique<GlooTransfer>(*this, std::move(work));
  }

  void await(c10d::Work& work, const Progress::Entry& entry) {
    CollectiveWatchdog watchdog = watch();
    const milliseconds pause =
        std::min<milliseconds>({milliseconds(100), options().slow_after, options().timeout});
    try {
      while (!progress_->wait(entry, pause)) watchdog.check();
    } catch (const Error&) {
      close();
      throw;
    }
    try {
      work.wait();
    } catch (const std::exception& error) {
      throw peer_status().explain(what(), base::without_stack_trace(error.what()));
    }
  }

  /// Ends all connections, and with them all transfers. c10d's backend has no call for this, but a
  /// receive that times out closes all connections.
  void close() noexcept {
    if (!group_) return;
    const PipeSignalBlock block;  // the receive writes to its connection, in this thread
    try {
      constexpr int kUnusedTag = 1 << 20;
      std::vector<at::Tensor> nothing = {at::empty({1}, at::kByte)};
      group_->recv(nothing, (rank() + 1) % world_size(), kUnusedTag)->wait(milliseconds(1));
    } catch (const std::exception&) {
    }
    // Gloo may forget a send whose connection breaks: its thread then waits for the whole timeout,
    // and the group's destructor waits for the thread. Leak both instead.
    if (!progress_->wait_for_all(kEndTimeout)) group_.release();
  }

  c10::intrusive_ptr<ProcessGroupGloo> group_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  concurrency::CancelRegistration on_lost_;
};

}  // namespace

std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership> membership,
                                            const std::string& name,
                                            const CommunicationOptions& options) {
  return std::make_unique<GlooLink>(std::move(membership), name, options);
}

}  // namespace brigade::comm
