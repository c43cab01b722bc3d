#include "brigade/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <utility>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/launch/descriptors.h"
#include "brigade/launch/shim.h"

extern char** environ;

namespace brigade::launch {

namespace {

// The descriptor under which the shim finds its end of the lifeline.
constexpr int kLifeline = 3;

bool can_run(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

/// Searches PATH as the shell does. Checked here because the shim could not report it as well.
void check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (can_run(program)) return;
  } else {
    std::istringstream folders(base::environment("PATH").value_or("/usr/bin:/bin"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (can_run(folder + "/" + program)) return;
    }
  }
  throw Error(ErrorCode::kNotFound, base::quoted(program),
              " is not an executable program on this machine.");
}

std::vector<std::string> merged_environment(
    const std::map<std::string, std::optional<std::string>>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!changes.contains(name)) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) merged.push_back(base::str_cat(name, "=", *value));
  }
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> shim_command(const SpawnOptions& options) {
  std::vector<std::string> command = {
      "brigade", kShimCommand, std::to_string(kLifeline),
      options.cores.empty() ? std::string(kAllCores) : options.cores.to_string(), "--"};
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

/// The child's descriptors and signal settings: it starts without blocked or ignored signals.
class SpawnSettings {
 public:
  SpawnSettings(int lifeline, int output, int errors, const base::FileDescriptor& key) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, lifeline, kLifeline);
    // Last: a pipe above may have this number, and it has been duplicated by now.
    if (key.is_open()) ::posix_spawn_file_actions_adddup2(&actions, key.number(), kKeyDescriptor);
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

ChildProcess::ChildProcess(const SpawnOptions& options) {
  check_argument(!options.command.empty(), "There is no program to start.");
  check_program(options.command.front());
  SocketPair lifeline = make_socket_pair();
  Pipe output = make_pipe(), errors = make_pipe();
  const std::vector<std::string> command = shim_command(options);
  const std::vector<std::string> environment = merged_environment(options.environment);
  base::FileDescriptor key;
  if (options.key) key = make_key_descriptor(*options.key);
  const SpawnSettings settings(lifeline.other.number(), output.write.number(),
                               errors.write.number(), key);
  const int error =
      ::posix_spawn(&pid_, options.shim.c_str(), &settings.actions, &settings.attributes,
                    pointers(command).data(), pointers(environment).data());
  if (error != 0) {
    pid_ = -1;
    throw Error(ErrorCode::kUnavailable, base::quoted(options.command.front()),
                " was not started: ", std::strerror(error));
  }
  lifeline_ = std::move(lifeline.own);
  output_ = std::move(output.read);
  errors_ = std::move(errors.read);
  set_non_blocking(output_);
  set_non_blocking(errors_);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      lifeline_(std::move(other.lifeline_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      status_(other.status_),
      was_signaled_(other.was_signaled_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || status_) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0 && !status_) ::kill(pid_, number);
}

bool ChildProcess::was_signaled() {
  char note = 0;
  if (!was_signaled_ && lifeline_.is_open())
    was_signaled_ = ::recv(lifeline_.number(), &note, sizeof(note), MSG_DONTWAIT) > 0;
  return was_signaled_;
}

void ChildProcess::kill() {
  was_signaled();  // what the lifeline says is lost with it
  lifeline_.reset();
  // A shim that was stopped would not notice.
  signal(SIGCONT);
}

std::optional<ExitStatus> ChildProcess::poll() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = ExitStatus::of_wait(status);
  return status_;
}

}  // namespace brigade::launch
