#include "brigade/rpc/message_service.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/shared_segment.h"
#include "brigade/cluster/address.h"
#include "brigade/rpc/acceptor.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/proto/message_service.grpc.pb.h"
#include "brigade/rpc/proto_conversion.h"
#include "brigade/rpc/testing/echo_service.h"
#include "brigade/rpc/testing/thread_cluster.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EchoService;
using testing::error_of_call;
using ::testing::HasSubstr;
using testing::large;
using testing::open_segments;
using testing::pattern;
using testing::within;
using enum testing::Method;

/// A large call made frame by frame.
class RawCall {
 public:
  explicit RawCall(const std::string& address)
      : stub_(proto::Messages::NewStub(make_channel(address, std::nullopt))) {
    context_.set_deadline(std::chrono::system_clock::now() + seconds(20));
    stream_ = stub_->Large(&context_);
  }
  ~RawCall() { context_.TryCancel(); }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  bool header(std::uint64_t bytes, const std::string& token = "member", int method = kEcho) {
    proto::Frame frame;
    frame.mutable_header()->set_method(method);
    frame.mutable_header()->set_token(token);
    frame.mutable_header()->set_bytes(bytes);
    return stream_->Write(frame);
  }
  bool frame(const proto::Frame& frame) { return stream_->Write(frame); }
  bool bytes(const std::string& piece) {
    proto::Frame frame;
    frame.set_bytes(piece);
    return stream_->Write(frame);
  }
  void send_nothing() { stream_->Write(proto::Frame()); }
  void end() { stream_->WritesDone(); }

  /// How the server ends the call; it must not answer.
  Error error() {
    proto::Frame frame;
    EXPECT_FALSE(stream_->Read(&frame));
    const grpc::Status status = stream_->Finish();
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(is_ours(status)) << status.error_message();
    return to_error(status);
  }

 private:
  std::unique_ptr<proto::Messages::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::Frame, proto::Frame>> stream_;
};

TEST(MessageService, MessagesOfEverySizeArrive) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{900'000}}) {
    const std::string message = pattern(size);
    EXPECT_EQ(client->call(kEcho, "", message, within(seconds(20))), message);
  }
  for (const std::size_t size :
       {std::size_t{1}, kFrameBytes, kFrameBytes + 1, std::size_t{40} << 20}) {
    const std::string message = pattern(size);
    EXPECT_TRUE(large(*client, message) == message) << size;
  }
}

TEST(MessageService, LargeMessagesTravelInSharedMemoryOrInFrames) {
  for (const bool is_taken : {true, false}) {
    for (const bool is_offered : {true, false}) {
      EchoService service;
      const auto listener = listen_for_messages(service, {.shared_memory = is_taken});
      const auto client =
          make_message_client(listener->address(), std::nullopt, {.shared_memory = is_offered});
      for (const std::size_t size : {std::size_t{3} << 20, std::size_t{100}, std::size_t{9} << 20,
                                     (std::size_t{9} << 20) - 1, std::size_t{20} << 20}) {
        const std::string message = pattern(size);
        EXPECT_TRUE(large(*client, message) == message) << size;
      }
      const bool is_used = is_taken && is_offered;
      EXPECT_EQ(open_segments() > 0, is_used) << is_taken << is_offered;
      EXPECT_EQ(service.calls, 5);
    }
    EXPECT_EQ(open_segments(), 0u) << "the client has freed its memory";
  }
}

TEST(MessageService, AnAnswerStaysWhileItsReaderHasIt) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  const std::string first = pattern(5 << 20), second(5 << 20, 'b');
  const io::SharedBytes answer = client->large_call(kEcho, "member", first, within(seconds(60)));
  EXPECT_TRUE(large(*client, second) == second);
  EXPECT_TRUE(answer.bytes == first);
}

TEST(MessageService, AMessageThatIsKeptStaysAsItWasSent) {
  for (const bool shared_memory : {true, false}) {
    EchoService service;
    const auto listener = listen_for_messages(service, {.shared_memory = shared_memory});
    const auto client = make_message_client(listener->address(), std::nullopt);
    std::string bytes = pattern((std::size_t{5} << 20) + 7);
    const std::string first = bytes;
    const auto kept = [&](const std::string& message, int method = kEcho) {
      io::BytePieces pieces;  // which share the bytes
      pieces.append({.bytes = std::string_view(message).substr(0, 100), .owner = nullptr});
      pieces.append({.bytes = std::string_view(message).substr(100), .owner = nullptr});
      return client->kept_call(method, "member", pieces, within(seconds(60)));
    };
    const KeptCall call = kept(bytes);
    const KeptCall longer = kept(bytes, kLengthen);
    bytes.assign(bytes.size(), 'x');
    EXPECT_EQ(error_of_call([&] { kept(bytes, kFail); }).code(), ErrorCode::kAlreadyExists);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(kept(bytes).message.bytes == bytes);
    EXPECT_TRUE(call.message.bytes == first);
    EXPECT_TRUE(call.answer.bytes == first);
    EXPECT_TRUE(longer.message.bytes == first);
    EXPECT_TRUE(longer.answer.bytes == std::string(3 * kFrameBytes, 'l'));
    EXPECT_EQ(open_segments() > 0, shared_memory);
  }
}

TEST(MessageService, AnAnswerThatIsLongerThanTheSharedMemoryIsSent) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  for (int i = 0; i < 3; ++i) {  // later ones are in shared memory: its size follows the answers
    for (const std::string& message : {pattern(200'000), std::string("short")}) {
      const auto answer = client->large_call(kLengthen, "member", message, within(seconds(60)));
      EXPECT_TRUE(answer.bytes == std::string(3 * kFrameBytes, 'l'));
    }
  }
}

TEST(MessageService, AClientUsesSharedMemoryAgainOnceItsListenerHasRoom) {
  EchoService service;
  const auto listener =
      listen_for_messages(service, {.callers = 2, .max_buffered_bytes = 12 << 20, .threads = 2});
  const auto holder = make_message_client(listener->address(), std::nullopt);
  const auto client = make_message_client(listener->address(), std::nullopt);
  const auto lengthen = [&] {
    client->large_call(kLengthen, "member", std::string("short"), within(seconds(20)));
  };
  const auto await_bytes = [&](std::size_t bytes) {
    return testing::eventually([&] { return listener->load().buffered_bytes == bytes; });
  };
  lengthen();  // now it knows how long the answers are
  const std::string message = pattern(7'500'000);
  auto held = std::async(std::launch::async, [&] {
    return holder->large_call(kHang, "member", message, within(seconds(60))).bytes.size();
  });
  ASSERT_TRUE(testing::eventually([&] { return service.calls == 2; }));
  ASSERT_TRUE(await_bytes(message.size()));
  lengthen();  // in frames: there is no room for 4 MiB beside 9
  EXPECT_EQ(open_segments(), 1u) << "the other client's";
  service.release();
  EXPECT_EQ(held.get(), message.size());
  ASSERT_TRUE(await_bytes(0));
  lengthen();
  EXPECT_EQ(open_segments(), 2u);
}

TEST(MessageService, ACallThatFailsInSharedMemoryLeavesNothingToTheNext) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  const std::string first(2 << 20, 'a'), second(2 << 20, 'b');
  EXPECT_EQ(error_of_call([&] {
              client->large_call(kHang, "member", first, within(milliseconds(300)));
            }).code(),
            ErrorCode::kDeadlineExceeded);
  service.release();  // the first call may now answer into its memory
  EXPECT_TRUE(large(*client, second) == second);
  EXPECT_EQ(error_of_call([&] {
              client->large_call(kFail, "member", first, within(seconds(20)));
            }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(large(*client, second) == second);
}

/// A header that names this memory, whoever has it.
proto::Frame header_with_memory(std::uint64_t bytes, const base::SegmentHandle& handle,
                                std::uint64_t size) {
  proto::Frame frame;
  proto::FrameHeader& header = *frame.mutable_header();
  header.set_method(kEcho);
  header.set_token("member");
  header.set_bytes(bytes);
  header.mutable_memory()->set_pid(handle.pid);
  header.mutable_memory()->set_file(handle.descriptor);
  header.mutable_memory()->set_first_nonce(handle.nonce[0]);
  header.mutable_memory()->set_second_nonce(handle.nonce[1]);
  header.mutable_memory()->set_bytes(size);
  return frame;
}

TEST(MessageService, SharedMemoryThatIsNotTheCallersIsRefusedBeforeItIsRead) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.max_message_bytes = 4 << 20});
  const auto segment = base::SharedSegment::make(1 << 20);
  base::SegmentHandle forged = segment.handle();
  ++forged.nonce[0];
  base::SegmentHandle closed = segment.handle();
  closed.descriptor = 1'000'000;
  const std::vector<std::pair<proto::Frame, ErrorCode>> wrong = {
      {header_with_memory(100, forged, 1 << 20), ErrorCode::kFailedPrecondition},
      {header_with_memory(100, closed, 1 << 20), ErrorCode::kFailedPrecondition},
      {header_with_memory(100, segment.handle(), 2 << 20), ErrorCode::kFailedPrecondition},
      {header_with_memory(100, {.pid = 1, .descriptor = 0}, 1 << 20),
       ErrorCode::kFailedPrecondition},
      {header_with_memory(2 << 20, segment.handle(), 1 << 20), ErrorCode::kInvalidArgument},
      {header_with_memory(5 << 20, segment.handle(), 8 << 20), ErrorCode::kInvalidArgument},
      {header_with_memory(100, segment.handle(), ~std::uint64_t{0}),
       ErrorCode::kFailedPrecondition},
      {header_with_memory(0, segment.handle(), 1 << 20), ErrorCode::kInvalidArgument}};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    RawCall call(listener->address());
    call.frame(wrong[i].first);
    EXPECT_EQ(call.error().code(), wrong[i].second) << i;
  }
  // Nor is an answer written to memory that is another one's.
  for (const base::SegmentHandle& wrong_answer : {forged, closed}) {
    proto::Frame frame = header_with_memory(100, segment.handle(), 1 << 20);
    *frame.mutable_header()->mutable_answer_memory() =
        header_with_memory(100, wrong_answer, 1 << 20).header().memory();
    RawCall call(listener->address());
    call.frame(frame);
    EXPECT_EQ(call.error().code(), ErrorCode::kFailedPrecondition);
  }
  EXPECT_EQ(service.calls, 0);
}

TEST(MessageService, AStrangersSharedMemoryIsNotOpened) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto segment = base::SharedSegment::make(1 << 20);
  proto::Frame frame = header_with_memory(100, segment.handle(), 1 << 20);
  frame.mutable_header()->set_token("stranger");
  RawCall call(listener->address());
  call.frame(frame);
  EXPECT_EQ(call.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(service.calls, 0);
}

TEST(MessageService, ErrorsKeepTheirCodeAndKind) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  const Error failed = error_of_call([&] { client->call(kFail, "", "", within(seconds(20))); });
  EXPECT_EQ(failed.code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(failed.what(), HasSubstr("xxx"));
  try {
    client->large_call(kFailWithKind, "member", "a", within(seconds(20)));
    FAIL() << "it succeeded";
  } catch (const MessageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error.kind(), "a-kind");
    EXPECT_STREQ(error.what(), "Join again.");
  }
  EXPECT_EQ(error_of_call([&] { client->call(99, "", "", within(seconds(20))); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->call(kEcho, "", "still there", within(seconds(20))), "still there");
}

TEST(MessageService, AStrangersMessageIsRefusedAfterItsHeader) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  RawCall call(listener->address());
  call.header(std::uint64_t{1} << 29, "stranger");
  EXPECT_EQ(call.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(service.admissions, 1);
  EXPECT_EQ(service.calls, 0);
}

TEST(MessageService, MessagesInAnotherFormEndTheirCallAlone) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.max_message_bytes = 2 * kFrameBytes});
  const std::vector<std::function<void(RawCall&)>> wrong = {
      [](RawCall& call) { call.bytes("abc"); },
      [](RawCall& call) { call.send_nothing(); },
      [](RawCall& call) { call.end(); },
      [](RawCall& call) { call.header(0); },
      [](RawCall& call) { call.header(2 * kFrameBytes + 1); },
      [](RawCall& call) { call.header(~std::uint64_t{0}); },
      [](RawCall& call) { call.header(3, std::string(4096, 't')); },
      [](RawCall& call) { call.header(3, "member", 77); },
      [](RawCall& call) { call.header(3) && call.header(3); },
      [](RawCall& call) { call.header(3) && call.bytes("abcd"); },
      [](RawCall& call) { call.header(3) && call.bytes("ab"); },
      [](RawCall& call) {
        call.header(kFrameBytes + 1);
        call.bytes(std::string(kFrameBytes, 'a'));
        call.end();
      }};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    RawCall call(listener->address());
    wrong[i](call);
    EXPECT_EQ(call.error().code(), ErrorCode::kInvalidArgument) << i;
  }
  EXPECT_EQ(service.calls, 0);
  const auto client = make_message_client(listener->address(), std::nullopt);
  EXPECT_EQ(large(*client, "abc"), "abc");
}

TEST(MessageService, AllMessagesTogetherHaveALimitThatIsGivenBack) {
  EchoService service;
  const auto listener =
      listen_for_messages(service, {.max_message_bytes = 8 << 20, .max_buffered_bytes = 8 << 20});
  auto first = std::make_unique<RawCall>(listener->address());
  first->header(6 << 20);
  first->bytes(std::string(kFrameBytes, 'a'));
  ASSERT_TRUE(testing::eventually([&] { return service.admissions == 1; }));
  const auto client = make_message_client(listener->address(), std::nullopt);
  const auto send = [&] { return large(*client, std::string(7 << 20, 'b')); };
  EXPECT_TRUE(testing::eventually([&] {
    try {
      send();
    } catch (const MessageError& error) {
      return error.code() == ErrorCode::kResourceExhausted && error.kind() == kBusyKind;
    }
    return false;
  }));
  first.reset();
  EXPECT_TRUE(testing::eventually(
      [&] { return error_of_call(send).code() == ErrorCode::kInternal; }));  // it succeeded
}

TEST(MessageService, AnswersThatAreInMemoryAnyhowNeedNoRoomBesideMessages) {
  EchoService service;
  const auto listener =
      listen_for_messages(service, {.callers = 2, .max_buffered_bytes = 8 << 20, .threads = 2});
  const auto holder =
      make_message_client(listener->address(), std::nullopt, {.shared_memory = false});
  const auto client =
      make_message_client(listener->address(), std::nullopt, {.shared_memory = false});
  auto held = std::async(std::launch::async, [&] {
    return holder->large_call(kHang, "member", pattern(6 << 20), within(seconds(60))).bytes.size();
  });
  ASSERT_TRUE(testing::eventually([&] { return service.calls == 1; }));
  const auto ask = [&](int method) {
    return client->large_call(method, "member", std::string("short"), within(seconds(20)))
        .bytes.size();
  };
  EXPECT_EQ(error_of_call([&] { ask(kLengthen); }).code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(ask(kShare), 3 * kFrameBytes);
  service.release();
  EXPECT_EQ(held.get(), std::size_t{6 << 20});
}

TEST(MessageService, ASilentMessageIsEnded) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.silence = milliseconds(200)});
  RawCall mute(listener->address());
  EXPECT_EQ(mute.error().code(), ErrorCode::kDeadlineExceeded);
  RawCall halfway(listener->address());
  halfway.header(3 * kFrameBytes);
  halfway.bytes(std::string(kFrameBytes, 'a'));
  EXPECT_EQ(halfway.error().code(), ErrorCode::kDeadlineExceeded);
}

TEST(MessageService, StrangersTakeNoSlotsOfMembers) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto stub = proto::Messages::NewStub(make_channel(listener->address(), std::nullopt));
  struct Stranger {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<proto::Frame, proto::Frame>> stream;
  };
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 100; ++i) {  // more than one caller's calls
    strangers.push_back(std::make_unique<Stranger>());
    strangers.back()->stream = stub->Large(&strangers.back()->context);
  }
  const auto client = make_message_client(listener->address(), std::nullopt);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(large(*client, "a"), "a");
  for (const auto& each : strangers) each->context.TryCancel();
}

TEST(MessageService, ACallerWhoseMessageTakesLongIsAdmittedAgain) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  RawCall slow(listener->address());
  slow.header(1 << 28);
  int polls = 0;
  EXPECT_TRUE(testing::eventually([&] {
    if (++polls % 50 == 0) slow.bytes(std::string(kFrameBytes, 'a'));
    return service.admissions >= 2;
  }));
}

TEST(MessageService, ACallEndsAtItsDeadline) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  EXPECT_EQ(error_of_call([&] { client->call(kHang, "", "", within(milliseconds(300))); }).code(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(error_of_call([&] {
              client->large_call(kHang, "member", "a", within(milliseconds(300)));
            }).code(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(error_of_call([&] { client->call(kEcho, "", "", within(milliseconds(-1))); }).code(),
            ErrorCode::kDeadlineExceeded);
  // The thread is free again, since the caller is gone.
  EXPECT_EQ(client->call(kEcho, "", "a", within(seconds(20))), "a");
}

TEST(MessageService, AHostThatAcceptsAndSaysNothingCostsNoMoreThanTheDeadline) {
  const Listening silent = listen_on("127.0.0.1:0");
  const auto client = make_message_client("127.0.0.1:" + std::to_string(silent.port), std::nullopt);
  const auto begun = std::chrono::steady_clock::now();
  const Error error =
      error_of_call([&] { client->call(kEcho, "", "", within(milliseconds(1500))); });
  EXPECT_THAT(error.code(),
              ::testing::AnyOf(ErrorCode::kDeadlineExceeded, ErrorCode::kUnavailable));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(10));
}

TEST(MessageService, AServerThatComesBackIsFoundByTheSameClient) {
  EchoService service;
  auto listener = listen_for_messages(service, {});
  const std::string address = listener->address();
  const auto client = make_message_client(address, std::nullopt);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client->call(kEcho, "", "a", within(seconds(20))), "a");
    listener.reset();
    const Error error = error_of_call([&] { client->call(kEcho, "", "", within(seconds(20))); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(address));
    listener = listen_for_messages(service, {.address = address});
    EXPECT_TRUE(testing::eventually([&] {
      return error_of_call([&] { client->call(kEcho, "", "a", within(seconds(20))); }).code() ==
             ErrorCode::kInternal;  // it succeeded
    }));
  }
}

TEST(MessageService, AClosedClientWakesItsCalls) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  auto waiting = std::async(std::launch::async, [&] {
    return error_of_call([&] { client->call(kWait, "", "", within(seconds(60))); });
  });
  ASSERT_TRUE(testing::eventually([&] { return service.calls == 1; }));
  client->close();
  ASSERT_EQ(waiting.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(waiting.get().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error_of_call([&] { client->call(kEcho, "", "", within(seconds(20))); }).code(),
            ErrorCode::kUnavailable);
}

TEST(MessageService, AListenerEndsWhateverItsCallsDo) {
  EchoService service;
  auto listener = listen_for_messages(service, {.silence = seconds(600)});
  const auto client = make_message_client(listener->address(), std::nullopt);
  auto waiting = std::async(std::launch::async, [&] {
    return error_of_call([&] { client->call(kWait, "", "", within(seconds(60))); });
  });
  RawCall halfway(listener->address());
  halfway.header(3 * kFrameBytes);
  ASSERT_TRUE(testing::eventually([&] { return service.calls == 1 && service.admissions == 1; }));
  const auto begun = std::chrono::steady_clock::now();
  listener.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(10));
  EXPECT_EQ(waiting.get().code(), ErrorCode::kUnavailable);
}

TEST(MessageService, CallsThatWaitDoNotHoldUpTheOthersAndHaveALimit) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.callers = 2});
  const auto client = make_message_client(listener->address(), std::nullopt);
  std::vector<std::future<Error>> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] {
      for (;;) {  // the call below may take its place for a moment
        const Error error =
            error_of_call([&] { client->call(kWait, "", "", within(seconds(60))); });
        if (error.code() != ErrorCode::kResourceExhausted) return error;
      }
    }));
  }
  ASSERT_TRUE(testing::eventually([&] { return service.calls == 2; }));
  EXPECT_TRUE(testing::eventually([&] {
    return error_of_call([&] { client->call(kWait, "", "", within(milliseconds(200))); }).code() ==
           ErrorCode::kResourceExhausted;
  }));
  EXPECT_EQ(client->call(kEcho, "", "a", within(seconds(20))), "a");
  service.release();
  for (auto& each : waiting) EXPECT_EQ(each.get().code(), ErrorCode::kInternal);  // it succeeded
}

TEST(MessageService, TwoHundredClientsCallAtTheSameTime) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.callers = 200, .threads = 4});
  std::vector<std::unique_ptr<MessageClient>> clients;
  for (int i = 0; i < 200; ++i)
    clients.push_back(make_message_client(listener->address(), std::nullopt));
  std::atomic<int> succeeded{0};
  {
    std::vector<std::jthread> threads;
    for (int first = 0; first < 200; first += 10) {
      threads.emplace_back([&, first] {
        for (int i = first; i < first + 10; ++i) {
          const std::string message = "client " + std::to_string(i);
          if (large(*clients[static_cast<std::size_t>(i)], message) == message) ++succeeded;
        }
      });
    }
  }
  EXPECT_EQ(succeeded, 200);
}

TEST(MessageService, TheKeyDecidesWhoConnects) {
  const auto key = cluster::ClusterKey::generate();
  EchoService service;
  const auto listener = listen_for_messages(service, {.key = key});
  const auto call_with = [&](const std::optional<cluster::ClusterKey>& own) {
    const auto client = make_message_client(listener->address(), own);
    return error_of_call([&] { client->call(kEcho, "", "a", within(seconds(20))); }).code();
  };
  EXPECT_EQ(call_with(key), ErrorCode::kInternal);  // it succeeded
  EXPECT_EQ(call_with(cluster::ClusterKey::generate()), ErrorCode::kPermissionDenied);
  EXPECT_EQ(call_with(std::nullopt), ErrorCode::kUnavailable);
  EXPECT_EQ(service.calls, 1);
  const auto keyless = listen_for_messages(service, {});
  const auto client = make_message_client(keyless->address(), key);
  EXPECT_EQ(error_of_call([&] { client->call(kEcho, "", "a", within(seconds(20))); }).code(),
            ErrorCode::kPermissionDenied);
}

TEST(MessageService, WithoutAKeyNothingListensOrConnectsBeyondLoopback) {
  EchoService service;
  EXPECT_EQ(error_of_call([&] { listen_for_messages(service, {.address = "0.0.0.0:0"}); }).code(),
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(error_of_call([&] { make_message_client("ps0.example:2222", std::nullopt); }).code(),
            ErrorCode::kPermissionDenied);
}

TEST(MessageService, AListenerWithoutThreadsIsRefused) {
  EchoService service;
  for (const MessageListenerOptions& options :
       {MessageListenerOptions{.callers = 0}, MessageListenerOptions{.max_message_bytes = 0},
        MessageListenerOptions{.threads = 0}, MessageListenerOptions{.silence = milliseconds(0)}}) {
    EXPECT_EQ(error_of_call([&] { listen_for_messages(service, options); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace brigade::rpc
