#include "apps/brigade/training_process.h"

#include <poll.h>
#include <unistd.h>

#include <array>

#include "apps/brigade/installation.h"
#include "brigade/launch/child_process.h"

namespace brigade::command {
namespace {

constexpr int kPollMilliseconds = 50;
// Of what the process writes, the end is enough.
constexpr std::size_t kKeptBytes = 1 << 20;

void read_available(const base::FileDescriptor& pipe, std::string& text) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = ::read(pipe.number(), bytes.data(), bytes.size());
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (text.size() > kKeptBytes) text.erase(0, text.size() - kKeptBytes);
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // all of it without a newline
}

std::string message_in(const std::string& errors) {
  const std::string line = last_line(errors);
  constexpr std::string_view kPrefix = "brigade: error: ";
  return line.starts_with(kPrefix) ? line.substr(kPrefix.size()) : line;
}

}  // namespace

TrainingProcessResult run_training_process(const std::vector<std::string>& arguments,
                                           const Interrupt& interrupt) {
  const auto front = front_program();
  launch::SpawnOptions options{.command = {front.string(), "train", "--json"},
                               .shim = front.string()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  launch::ChildProcess process(options);
  std::string output, errors;
  bool was_signaled = false;
  std::optional<launch::ExitStatus> status;
  while (!status) {
    std::array<pollfd, 2> pipes = {pollfd{process.output().number(), POLLIN, 0},
                                   pollfd{process.errors().number(), POLLIN, 0}};
    ::poll(pipes.data(), pipes.size(), kPollMilliseconds);
    status = process.poll();
    read_available(process.output(), output);
    read_available(process.errors(), errors);
    const auto signal = interrupt.received();
    if (signal && !was_signaled) process.signal(*signal);
    was_signaled = was_signaled || signal;
  }
  TrainingProcessResult result{.code = status->as_code(), .message = message_in(errors)};
  const Json report = Json::parse(last_line(output), nullptr, /*allow_exceptions=*/false);
  if (report.is_object()) result.report = report;
  return result;
}

}  // namespace brigade::command
