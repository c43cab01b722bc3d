#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// Identifies a message of a channel: its step, its number in the step (a micro-batch), and which
/// of several with that number it is.
struct MessageKey {
  std::int64_t step = 0;
  int number = 0;
  int chunk = 0;

  auto operator<=>(const MessageKey&) const = default;
};

/// A group of ranks for one channel.
struct ChannelGroup {
  /// Of the sender and the receivers; used by the channel alone.
  std::unique_ptr<Communicator> communicator;
  /// The rank that sends.
  int source = 0;
  /// Makes a call of `communicator` that waits in this process throw. From any thread.
  std::function<void()> interrupt;
};

struct TensorChannelOptions {
  /// What is sent, for messages: "activations of stage 0".
  std::string name = "tensors";
  /// `receive` fails if a message has not arrived after this time.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Sends tensors point to point: from one rank of a group to the other, or to all others. A message
/// is a broadcast in this group, which no other rank takes part in, so a channel works over every
/// transport, and its errors are those of collectives: a lost peer is named.
///
/// `send` returns immediately, and messages are received as soon as they arrive, so neither side
/// waits for the other except in `receive`, and transfers run while both compute. Messages have
/// keys, and may be received in another order than they were sent in. A tensor arrives with its
/// dtype, shape and strides; in memory it is dense.
///
/// The sender ends each step (`end_step`), successful or not: receivers that still wait for a
/// message of it then get an error with the sender's reason.
///
/// Thread-safety: all functions from any thread. The channel has one thread, which alone calls the
/// communicator; a mutex guards what it shares with the callers.
class TensorChannel {
 public:
  /// A collective of the group: all make their channels.
  TensorChannel(ChannelGroup group, const TensorChannelOptions& options);
  /// The sender's destructor first sends what `send` was given, unless the receivers have left.
  ~TensorChannel();
  TensorChannel(const TensorChannel&) = delete;
  TensorChannel& operator=(const TensorChannel&) = delete;

  bool is_source() const { return is_source_; }

  /// For the sender. At most kMaxTensors dense tensors on CPU, which must not change any more.
  /// Throws kInvalidArgument for others, and what the channel failed with.
  void send(const MessageKey& key, std::vector<at::Tensor> tensors);
  /// The sender sends nothing more of this step. With a failure, which names the process and the
  /// reason, what it has not sent yet is dropped.
  void end_step(std::int64_t step, const std::optional<Error>& failure);

  /// For receivers: waits for the message, and takes it. Throws the sender's failure if its step
  /// failed; kAborted with the reason of `abort`; kFailedPrecondition if the sender has ended the
  /// step without it; kDeadlineExceeded, naming the message; and what the channel failed with:
  /// kUnavailable, naming the member, if one is lost.
  std::vector<at::Tensor> receive(const MessageKey& key);
  /// For receivers: this step begins. Messages of earlier steps are dropped, also if they arrive
  /// later.
  void begin_step(std::int64_t step);
  /// This rank has failed: `receive` throws kAborted until the next step begins.
  void abort(const std::string& reason);

  /// Bytes of the tensors that `send` was given, for all receivers, and of what describes them;
  /// without what `end_step` has dropped.
  std::int64_t bytes_sent() const;

  static constexpr std::size_t kMaxTensors = 2;
  static constexpr std::size_t kMaxDimensions = 8;

 private:
  enum class Kind : std::int64_t { kTensors, kStepEnded, kStepFailed };
  struct Message {
    Kind kind = Kind::kTensors;
    MessageKey key;
    std::vector<at::Tensor> tensors;
  };

  void serve();
  void send_all();
  void receive_all();
  void transfer(const Message& message);
  Message transfer();
  void store(Message message) BRIGADE_REQUIRES(mutex_);
  void fail(const Error& error);
  void push(Message message);
  std::int64_t bytes_of(const Message& message) const;
  /// The error of a receive that will not get its message; nothing: it may still arrive.
  std::optional<Error> reason_to_stop(const MessageKey& key) const BRIGADE_REQUIRES(mutex_);

  const std::unique_ptr<Communicator> communicator_;
  const int source_;
  const bool is_source_;
  const std::function<void()> interrupt_;
  const TensorChannelOptions options_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::deque<Message> outbox_ BRIGADE_GUARDED_BY(mutex_);
  bool is_sending_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::map<MessageKey, std::vector<at::Tensor>> inbox_ BRIGADE_GUARDED_BY(mutex_);
  /// Steps that the sender has ended, and with what failure.
  std::map<std::int64_t, std::optional<Error>> ended_ BRIGADE_GUARDED_BY(mutex_);
  std::int64_t step_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::int64_t bytes_sent_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> aborted_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<Error> failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_closing_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// The group of a channel from the member of rank `source` to those of `receivers`; a collective of
/// all of them. `name` is the channel's alone in the membership's store. Throws what
/// `make_process_communicator` throws.
ChannelGroup make_channel_group(const std::shared_ptr<cluster::Membership>& membership, int source,
                                const std::vector<int>& receivers, const std::string& name,
                                const CommunicationOptions& options);

}  // namespace brigade::comm
