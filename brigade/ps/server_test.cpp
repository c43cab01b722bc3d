#include "brigade/ps/server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/testing/member.h"
#include "brigade/ps/testing/unused_port.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using testing::Member;
using testing::unused_port;

const cluster::Task kTrainingChief = {.job = "worker", .index = 0};
const cluster::Task kTrainingWorker = {.job = "worker", .index = 1};

/// One server and two workers.
cluster::ClusterSpec small_cluster(int port) {
  return cluster::ClusterSpec(std::map<std::string, std::vector<std::string>>{
      {"ps", {base::str_cat("127.0.0.1:", port)}}, {"worker", {"127.0.0.1:1", "127.0.0.1:2"}}});
}

/// Lines of the log while it lives.
class LogLines {
 public:
  LogLines() {
    base::set_log_sink([this](base::LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~LogLines() { base::set_log_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  bool has(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(
        lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A server on a port of this machine. What it logs is kept.
class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rpc::is_built_in()) GTEST_SKIP() << "needs gRPC";
    std::string pattern = (std::filesystem::temp_directory_path() / "ps-server-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (server_) server_->shutdown();
    if (joined_.valid()) joined_.wait();
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void start_server(ServerOptions options = {}) {
    server_.reset();
    options.key = std::nullopt;
    server_ = std::make_unique<Server>(cluster_, "ps", 0, options);
    joined_ = std::async(std::launch::async, [server = server_.get()] { server->join(); });
  }
  ServerOptions with_folder() const { return {.folder = folder_}; }
  bool has_ended() const { return joined_.wait_for(kLong) == std::future_status::ready; }
  bool still_serves() const {
    return joined_.wait_for(concurrency::testing::kShort) == std::future_status::timeout;
  }
  /// A member over a new connection.
  Member member(const cluster::Task& task, std::int64_t incarnation = 0) const {
    return Member(connect(cluster_.task_address({.job = "ps", .index = 0}), std::nullopt), task,
                  incarnation);
  }
  Member chief_of_ready_server() const {
    Member chief = member(kTrainingChief);
    chief.create({});
    chief.set_ready();
    return chief;
  }

  const cluster::ClusterSpec cluster_ = small_cluster(unused_port());
  io::Path folder_;
  LogLines log_;
  std::unique_ptr<Server> server_;
  std::future<void> joined_;  // waits for the server's end; ready before it is destroyed
};

TEST(Server, IsATaskOfTheServersJob) {
  const cluster::ClusterSpec cluster = small_cluster(1000);
  EXPECT_EQ(code_of([&] { const Server server(cluster, "worker", 0); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { const Server server(cluster, "ps", 1); }), ErrorCode::kNotFound);
}

TEST_F(ServerTest, ServesUntilTheTrainingHasEnded) {
  start_server(with_folder());
  EXPECT_FALSE(server_->metrics_port());
  EXPECT_EQ(server_->target(),
            base::str_cat("grpc://", cluster_.task_address({.job = "ps", .index = 0})));
  Member chief = chief_of_ready_server();
  Member worker = member(kTrainingWorker);
  EXPECT_EQ(Member::value_of(worker.push(1, 2)), -2);
  EXPECT_EQ(chief.pull(), -2);
  EXPECT_TRUE(worker.begin_step({.finished = 1}).may_begin);
  EXPECT_EQ(server_->status().step, 1);
  EXPECT_EQ(server_->counters().pushes, 1);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ps-0"));
  chief.leave();
  EXPECT_TRUE(still_serves()) << "a worker trains";
  worker.leave();
  EXPECT_TRUE(has_ended());
  server_.reset();
  EXPECT_TRUE(log_.has("/job:ps/task:0 listens at 127.0.0.1:"));
  EXPECT_TRUE(log_.has("/job:worker/task:1 has joined as incarnation 1"));
  EXPECT_TRUE(log_.has("/job:worker/task:1 has finished"));
  EXPECT_TRUE(log_.has("has finished: 1 pushes"));
  EXPECT_FALSE(log_.has("temporary"));
}

TEST_F(ServerTest, IsConfiguredByTheChiefAlone) {
  start_server(with_folder());
  Member worker = member(kTrainingWorker);
  ParameterService& service = worker.service();
  const auto refused = [&](const auto& call) {
    return code_of(call) == ErrorCode::kPermissionDenied;
  };
  EXPECT_TRUE(refused([&] { worker.create({}); }));
  EXPECT_TRUE(refused([&] { worker.set_ready(); }));
  EXPECT_TRUE(refused([&] { service.assign(worker.token(), {}, 100, Member::deadline()); }));
  EXPECT_TRUE(refused([&] { service.set_learning_rate(worker.token(), 9, Member::deadline()); }));
  EXPECT_EQ(server_->counters().refused_calls, 4);
  EXPECT_FALSE(server_->status().is_created);
  EXPECT_EQ(server_->status().step, 0);
}

TEST_F(ServerTest, ReportsItsLoad) {
  ServerOptions options = with_folder();
  options.metrics_port = 0;
  start_server(options);
  ASSERT_TRUE(server_->metrics_port());
  EXPECT_TRUE(log_.has(base::str_cat("http://127.0.0.1:", *server_->metrics_port(), "/metrics")));
  Member chief = chief_of_ready_server();
  Member worker = member(kTrainingWorker);
  worker.push(1, 2);
  const std::string text = server_->metrics();
  const auto has = [&](const char* line) {
    return text.find(base::str_cat("\n", line, "\n")) != std::string::npos;
  };
  EXPECT_TRUE(has("brigade_ps_pushes_total 1")) << text;
  EXPECT_TRUE(has("brigade_ps_push_seconds_count 1")) << text;
  EXPECT_TRUE(has("brigade_ps_pull_seconds_count 1")) << text;
  EXPECT_TRUE(has("brigade_ps_step 1")) << text;
  EXPECT_TRUE(has("brigade_ps_members 2")) << text;
  EXPECT_TRUE(has("brigade_ps_log_waiting_records 0")) << text;
  EXPECT_FALSE(has("brigade_ps_log_sync_seconds_count 0")) << text;
  EXPECT_FALSE(has("brigade_ps_received_bytes_total 0")) << text;
  EXPECT_FALSE(has("brigade_ps_sent_bytes_total 0")) << text;
}

TEST_F(ServerTest, NoticesALostTaskItself) {
  ServerOptions options = with_folder();
  options.lease = std::chrono::milliseconds(500);
  start_server(options);
  member(kTrainingWorker);
  member(kTrainingChief).leave();
  EXPECT_TRUE(has_ended()) << "the worker is silent";
  EXPECT_TRUE(log_.has("/job:worker/task:1 is lost: it was silent for 0.5 s"));
}

TEST_F(ServerTest, ContinuesInItsFolder) {
  start_server(with_folder());
  Member worker = member(kTrainingWorker);
  {
    Member chief = chief_of_ready_server();
    chief.push(1, 1);
    worker.push(1, 4);
  }
  server_->shutdown();
  EXPECT_TRUE(has_ended());
  start_server(with_folder());
  EXPECT_TRUE(server_->status().is_ready);
  EXPECT_EQ(server_->status().step, 2);
  Member again = member(kTrainingWorker, worker.incarnation());
  EXPECT_EQ(again.push(1, 4).verdict, coordination::PushVerdict::kDuplicate);
  EXPECT_EQ(again.pull(), -5);
  server_->shutdown();
  EXPECT_TRUE(has_ended());
}

/// While it lives, files of this process do not grow.
class FullDisk {
 public:
  FullDisk() : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(ServerTest, EndsWithAnErrorWhenItsDiskIsFull) {
  start_server(with_folder());
  Member chief = chief_of_ready_server();
  chief.push(1, 1);
  {
    const FullDisk full;
    EXPECT_EQ(code_of([&] { chief.push(2, 1); }), ErrorCode::kUnavailable);
  }
  ASSERT_TRUE(has_ended());
  EXPECT_EQ(code_of([&] { joined_.get(); }), ErrorCode::kDataLoss);
  start_server(with_folder());
  Member again = member(kTrainingChief, chief.incarnation());
  again.push(2, 1);
  EXPECT_EQ(again.pull(), -2);
}

TEST_F(ServerTest, EndsWhenItIsCancelled) {
  ServerOptions options;
  start_server(options);
  EXPECT_TRUE(log_.has("temporary folder"));
  EXPECT_TRUE(still_serves());
  options.cancel.cancel();
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(code_of([&] { member(kTrainingChief); }), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace brigade::ps
