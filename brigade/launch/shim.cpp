#include "brigade/launch/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "brigade/launch/process_tree.h"
#include "brigade/machine/core_set.h"

namespace brigade::launch {

namespace {

constexpr int kUsage = 2;
constexpr int kCannotStart = 127;
constexpr std::chrono::seconds kShimPatience{10};

struct Arguments {
  int lifeline = -1;
  machine::CoreSet cores;      // empty: all
  std::vector<char*> program;  // ends with null
};

std::optional<Arguments> parse(std::span<const std::string> arguments) {
  if (arguments.size() < 4 || arguments[2] != "--") return std::nullopt;
  Arguments parsed;
  const std::string& number = arguments[0];
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), parsed.lifeline);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  if (arguments[1] != kAllCores) parsed.cores = machine::CoreSet::parse(arguments[1]);
  for (const std::string& word : arguments.subspan(3))
    parsed.program.push_back(const_cast<char*>(word.c_str()));
  parsed.program.push_back(nullptr);
  return parsed;
}

/// Pins this process, and so the program. If the system refuses, the program runs unpinned.
void keep_to(const machine::CoreSet& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores.cores()) CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&set, signal);
  return set;
}

[[noreturn]] void become_program(const Arguments& arguments, pid_t shim,
                                 const sigset_t& former_mask) {
  // The program is killed with the shim, which may be dead already.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shim) ::_exit(kCannotStart);
  ::setpgid(0, 0);
  ::sigprocmask(SIG_SETMASK, &former_mask, nullptr);
  ::execvp(arguments.program.front(), arguments.program.data());
  std::fprintf(stderr, "brigade: error: cannot start '%s': %s\n", arguments.program.front(),
               std::strerror(errno));
  ::_exit(kCannotStart);
}

/// Reaps all descendants that have ended; returns the program's status if it was among them.
std::optional<int> reap(pid_t program) {
  std::optional<int> ended;
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
       pid = ::waitpid(-1, &status, WNOHANG)) {
    if (pid == program) ended = status;
  }
  return ended;
}

/// The program may have ended already, for another reason, and not be reaped yet.
bool has_ended(pid_t program) {
  siginfo_t ended{};
  const int flags = WEXITED | WNOHANG | WNOWAIT;
  return ::waitid(P_PID, static_cast<id_t>(program), &ended, flags) == 0 && ended.si_pid != 0;
}

void forward(int signal, pid_t program, int lifeline) {
  if (has_ended(program)) return;
  ::kill(-program, signal);
  const char note = 0;  // if the launcher is gone or reads nothing, nobody needs it
  [[maybe_unused]] const ssize_t sent =
      ::send(lifeline, &note, sizeof(note), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Waits until the program ends or the lifeline closes. Returns the program's status, or nothing.
std::optional<int> watch(int lifeline, int signals, pid_t program) {
  while (true) {
    pollfd both[] = {{.fd = lifeline, .events = POLLIN, .revents = 0},
                     {.fd = signals, .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    if (both[0].revents != 0) return std::nullopt;
    if (both[1].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) forward(signal, program, lifeline);
      if (const auto status = reap(program)) return status;
    }
  }
}

int end_by(int signal) {
  // The launcher should see the program's signal, but there should be no second core file.
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  return 128 + signal;
}

}  // namespace

int run_shim(std::span<const std::string> arguments) {
  const auto parsed = parse(arguments);
  if (!parsed) {
    std::fprintf(stderr, "usage: brigade %s <lifeline descriptor> <cores or all> -- <program...>\n",
                 kShimCommand);
    return kUsage;
  }
  keep_to(parsed->cores);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::fcntl(parsed->lifeline, F_SETFD, FD_CLOEXEC);  // the program must not hold it
  const sigset_t handled = handled_signals();
  sigset_t former_mask;
  ::sigprocmask(SIG_BLOCK, &handled, &former_mask);
  const int signals = ::signalfd(-1, &handled, SFD_CLOEXEC);
  const pid_t shim = ::getpid();
  const pid_t program = ::fork();  // one thread, and nothing of libtorch is loaded here
  if (program == 0) become_program(*parsed, shim, former_mask);
  if (program < 0) {
    std::fprintf(stderr, "brigade: error: no process could be made: %s\n", std::strerror(errno));
    return kCannotStart;
  }
  ::setpgid(program, program);  // before a signal is forwarded to its group
  const std::optional<int> status = watch(parsed->lifeline, signals, program);
  ::kill(-program, SIGKILL);
  kill_descendants(shim, kShimPatience);
  if (!status) return end_by(SIGKILL);
  return WIFSIGNALED(*status) ? end_by(WTERMSIG(*status)) : WEXITSTATUS(*status);
}

}  // namespace brigade::launch
